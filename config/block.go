package config

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// block reads the settings of one of our blocks or inner blocks. An unknown key in it is an error.
func (f *file) block(name string, content *yaml.Node) {
	switch {
	case isNull(content):
	case content.Kind == yaml.AliasNode:
		f.blockFault(name, content.Line, content, "is an alias; write the block itself")
	case content.Kind != yaml.MappingNode:
		f.blockFault(name, content.Line, content, "is not a mapping; allowed: the keys "+strings.Join(names(name), ", "))
	case content.Style&yaml.TaggedStyle != 0:
		f.blockFault(name, content.Line, content, "has a tag; write the block without it")
	default:
		before := map[string]*yaml.Node{}
		for key, v := range pairs(content) {
			f.entry(name, key, v, before)
		}
	}
}

func (f *file) blockFault(block string, line int, content *yaml.Node, problem string) {
	repeated := show(content)
	if hides(block) {
		repeated = mask(content)
	}
	f.faults = append(f.faults, &Error{File: f.name, Line: line, Key: block, Value: repeated, Problem: problem})
}

// entry reads one key of a block. Before has the keys before it.
func (f *file) entry(block string, node, content *yaml.Node, before map[string]*yaml.Node) {
	name := canonical(block, nameOf(node))
	if !slices.Contains(names(block), name) && !isUnused(block, name) {
		f.unknown(block, node, content)
		return
	}
	path := block + "." + name
	if first, twice := before[name]; twice {
		f.blockFault(block+"."+node.Value, node.Line, content, secondValue(first, node))
		return
	}
	before[name] = node
	k, known := keyAt(path)
	reader, reads := k.kind.(nodeKind)
	switch {
	case reads:
		reader.read(f, k, node, content)
	case known:
		f.setting(k, node, content)
	case !isUnused(block, name):
		f.block(path, content)
	case !isNull(content):
		f.config.sources[path] = source{file: f.name, line: node.Line}
	}
}

func secondValue(first, second *yaml.Node) string {
	if first.Value == second.Value {
		return fmt.Sprintf("is a second value; the first is in line %d; write one", first.Line)
	}
	return fmt.Sprintf("is a second value: %s in line %d is the same setting; write one", first.Value, first.Line)
}

// setting reads the value of a key.
func (f *file) setting(k key, node, content *yaml.Node) {
	if isNull(content) {
		return
	}
	from := source{file: f.name, line: node.Line, other: node.Value == k.other}
	f.config.sources[k.path()] = from
	v := fromNode(content)
	if k.secret {
		v = v.masked(content)
	}
	if invalid := k.kind.set(f.config, v); invalid != nil {
		from.line = invalid.value.line
		f.faults = append(f.faults, from.fault(k, invalid.value.show, invalid.problem+k.allows()))
	}
}

// unknown reports a key that is not in the table.
func (f *file) unknown(block string, node, content *yaml.Node) {
	fault := &Error{File: f.name, Line: node.Line, Key: block, Value: show(node)}
	f.faults = append(f.faults, fault)
	name, known := nameOf(node), names(block)
	instead, gone := insteadOf(name)
	meant := inside(block, name)
	if meant == "" {
		meant = closest(name, accepted(block))
	}
	switch {
	case isMerge(node):
		fault.Problem = "is a merge key; write the keys themselves;"
	case name == "":
		fault.Problem = "is not the name of a key;"
	case block == loopBlock && gone:
		fault.Key, fault.Value = block+"."+name, show(content)
		fault.Problem = "stands under a key that is gone; use " + instead.name + ": " + instead.allowed + ";"
	default:
		fault.Key, fault.Value = block+"."+shown(name, maxShown), shownValue(block, meant, content)
		fault.Problem = "stands under an unknown key;"
		if meant == "" {
			meant = elsewhere(name)
		}
		if meant != "" {
			fault.Problem += " did you mean " + meant + "?"
		}
	}
	fault.Problem += " allowed: the keys " + strings.Join(known, ", ")
}

// inside returns the path of the key with a name in an inner block of the block, or "" if there is not exactly one. It
// goes before a name that is only near: pace belongs in keeper, and is no typo of grace.
func inside(block, name string) string {
	path := ""
	for _, k := range keys {
		if k.name != name || !strings.HasPrefix(k.block, block+".") {
			continue
		}
		if path != "" {
			return ""
		}
		path = k.path()
	}
	return path
}

// elsewhere returns where a name belongs that stands in another block of ours, or "".
func elsewhere(name string) string {
	if slices.Contains(blockNames, name) {
		return name + ": at the top level"
	}
	for _, k := range keys {
		if k.name == name && !k.common || slices.Contains(k.synonyms, name) {
			return k.path()
		}
	}
	return ""
}

// shownValue returns the value of an unknown key for its error. It hides what may be the value of a secret key.
func shownValue(block, meant string, content *yaml.Node) string {
	k, known := keyAt(block + "." + meant)
	if (known && !k.secret || !hides(block)) && !isAddress(content) {
		return show(content)
	}
	return mask(content)
}

// nameOf returns the text of a key, or "" if the key is not a text.
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

// pairs iterates over the keys and values of a mapping.
func pairs(mapping *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, content *yaml.Node) bool) {
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			if !yield(mapping.Content[i], mapping.Content[i+1]) {
				return
			}
		}
	}
}
