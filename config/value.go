package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A value is what stands behind a key before it is known what it means: one plain text or a list.
type value struct {
	text  string
	list  bool
	items []value

	quoted bool // whether it was written in quotes, in a file

	line int    // where it stands in a file
	show string // how errors repeat it
	odd  string // why it is neither a plain text nor a list, if it is not
}

// A flaw is what is wrong with a value or with one of its items.
type flaw struct {
	value value
	what  string
}

func (v value) flaw(what string) *flaw { return &flaw{value: v, what: what} }

// written takes over a text of the environment.
func written(text string) value {
	return value{text: text, show: strconv.Quote(shorten(text, maxShown))}
}

// separated takes over a text of the environment that is a list, its items divided by commas.
func separated(text string) value {
	v := written(text)
	v.list = true
	for item := range strings.SplitSeq(text, ",") {
		v.items = append(v.items, written(item))
	}
	return v
}

const quotes = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle

// fromNode takes over a value as YAML parsed it.
func fromNode(node *yaml.Node) value {
	v := value{line: node.Line, show: show(node), odd: oddity(node), quoted: node.Style&quotes != 0}
	switch node.Kind {
	case yaml.ScalarNode:
		v.text = node.Value
	case yaml.SequenceNode:
		v.list = true
		for _, item := range node.Content {
			v.items = append(v.items, fromNode(item))
		}
	}
	return v
}

// oddity says what makes a node more than a plain value. An anchor is none: the host may use the value elsewhere.
func oddity(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.AliasNode:
		return "is an alias; write the value itself"
	case node.Style&yaml.TaggedStyle != 0:
		return "has a tag; write the value without it"
	case node.Kind == yaml.MappingNode:
		return "is a mapping"
	case node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return "is a block of text"
	}
	return ""
}

// hidden stands for a text that errors must not repeat.
const hidden = "…"

// veil is what errors repeat of a node whose text may be a secret.
func veil(node *yaml.Node) string {
	if node.Kind == yaml.ScalarNode {
		return hidden
	}
	return show(node)
}

// veiled has errors repeat no text of the value; they name an item by its number.
func (v value) veiled() value {
	if v.text != "" {
		v.show = hidden
	}
	v.items = slices.Clone(v.items)
	for i := range v.items {
		v.items[i].show = fmt.Sprintf("item %d", i+1)
	}
	return v
}

func show(node *yaml.Node) string {
	switch node.Kind {
	case yaml.AliasNode:
		return "*" + shown(node.Value, maxShown)
	case yaml.MappingNode:
		return "{…}"
	case yaml.SequenceNode:
		return "[…]"
	}
	if node.Style&quotes != 0 {
		return strconv.Quote(shorten(node.Value, maxShown))
	}
	return shown(node.Value, maxShown)
}
