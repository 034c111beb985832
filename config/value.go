package config

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A value is the value of a key before its kind reads it: one plain text, a list or a mapping.
type value struct {
	text  string
	list  bool
	items []value

	mapping bool // a mapping, written as itself; most settings do not support that
	entries []entry
	merge   bool // a merge key, of a mapping

	quoted bool // written in quotes, in a file
	block  bool // written as a block of text, in a file; most settings do not support that

	line        int    // the line in a file
	show        string // its form in errors
	unsupported string // why it is neither a plain text nor a list
}

type entry struct {
	key, value value
	absent     bool // it is null, in a file
}

// An invalidValue says what is wrong with a value or with one of its items.
type invalidValue struct {
	value   value
	problem string
}

func (v value) invalid(problem string) *invalidValue {
	if problem == "" {
		return nil
	}
	return &invalidValue{value: v, problem: problem}
}

func fromText(text string) value {
	return value{text: text, show: strconv.Quote(shorten(text, maxShown))}
}

// fromList returns the value of a variable that is a list, its items divided by commas.
func fromList(text string) value {
	v := fromText(text)
	v.list = true
	for item := range strings.SplitSeq(text, ",") {
		v.items = append(v.items, fromText(item))
	}
	return v
}

// fromPairs returns the value of a variable that is pairs such as bash=100,search=20. A name may have an equals sign,
// and no comma. Wrong says what is wrong with an item that is no pair.
func fromPairs(text, wrong string) value {
	v := fromText(text)
	if v.mapping = text != "0"; !v.mapping {
		return v
	}
	for item := range strings.SplitSeq(text, ",") {
		e := entry{key: fromText(item), value: fromText(item)}
		if i := strings.LastIndex(item, "="); i >= 0 {
			e = entry{key: fromText(item[:i]), value: fromText(item[i+1:])}
		} else {
			e.key.unsupported = wrong
		}
		v.entries = append(v.entries, e)
	}
	return v
}

func (e entry) invalid(problem string) *invalidValue {
	v := e.value
	v.line = e.key.line
	if e.key.show != v.show {
		v.show = e.key.show + ": " + v.show
	}
	return v.invalid(problem)
}

const (
	blocks = yaml.LiteralStyle | yaml.FoldedStyle
	quotes = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle
)

func fromNode(node *yaml.Node) value {
	v := value{line: node.Line, show: show(node), unsupported: unsupportedReason(node), quoted: node.Style&quotes != 0}
	switch node.Kind {
	case yaml.ScalarNode:
		v.text, v.block = node.Value, node.Style&blocks != 0 && node.Style&yaml.TaggedStyle == 0
	case yaml.SequenceNode:
		v.list = true
		for _, item := range node.Content {
			v.items = append(v.items, fromNode(item))
		}
	case yaml.MappingNode:
		v.mapping = node.Style&yaml.TaggedStyle == 0
		for key, content := range pairs(node) {
			e := entry{key: fromNode(key), value: fromNode(content), absent: isNull(content)}
			e.key.merge = isMerge(key)
			v.entries = append(v.entries, e)
		}
	}
	return v
}

// unsupportedReason returns why a node is not a plain value. An anchor is allowed: the host may use it elsewhere.
func unsupportedReason(node *yaml.Node) string {
	return first([]when{
		{node.Kind == yaml.AliasNode, "is an alias; write the value itself"},
		{node.Style&yaml.TaggedStyle != 0, "has a tag; write the value without it"},
		{node.Kind == yaml.MappingNode, "is a mapping"},
		{node.Style&blocks != 0, "is a block of text"},
	})
}

// mask returns a node's form in errors if its text may be a secret, or the name of an alias: that may be an argument.
func mask(node *yaml.Node) string {
	return show(&yaml.Node{Kind: node.Kind, Value: "…"})
}

// masked returns the value without its text in errors; they name an item by its number.
func (v value) masked(node *yaml.Node) value {
	v.show = mask(node)
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

func nameOf(node *yaml.Node) string {
	if node.Kind == yaml.ScalarNode && node.Tag == "!!str" {
		return node.Value
	}
	return ""
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.Tag == "!!null" && node.Style&yaml.TaggedStyle == 0
}

func isMerge(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.Tag == "!!merge"
}

func pairs(mapping *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, content *yaml.Node) bool) {
		for i := 0; mapping.Kind == yaml.MappingNode && i+1 < len(mapping.Content); i += 2 {
			if !yield(mapping.Content[i], mapping.Content[i+1]) {
				return
			}
		}
	}
}
