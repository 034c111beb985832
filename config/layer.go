package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A layer is one stall block of a workflow, read and not yet merged with others.
type layer struct {
	place    string // of the stall block, such as steps.build.stall
	settings []placed
}

// A placed setting is a value of a layer and where it stands.
type placed struct {
	key   key
	path  string // as it is written, which may be another path of the key
	value value
	from  source
}

// A layerReader reads the stall block of a step, of a completion check or of the defaults.
type layerReader struct {
	f       *file
	isCheck bool
	isStep  bool
	layer   layer
	before  map[string]placed // the settings before, by their key's path
}

// read reads a block or an inner block. An unknown key in it is an error.
func (r *layerReader) read(block string, line int, content *yaml.Node) {
	switch {
	case isNull(content):
	case content.Kind == yaml.AliasNode:
		r.fault(block, line, content, "is an alias; write the block itself")
	case content.Kind != yaml.MappingNode:
		r.fault(block, line, content, "is not a mapping; allowed: the keys "+strings.Join(stepNames(block), ", "))
	case content.Style&yaml.TaggedStyle != 0:
		r.fault(block, line, content, "has a tag; write the block without it")
	default:
		for node, v := range pairs(content) {
			r.entry(block, node, v)
		}
	}
}

func (r *layerReader) entry(block string, node, content *yaml.Node) {
	path := block + "." + nameOf(node)
	keys := stepKeysAt(path)
	switch {
	case nameOf(node) != "" && isStepBlock(path, content.Kind == yaml.MappingNode):
		r.read(path, node.Line, content)
	case len(keys) == 0:
		r.unknown(block, node, content)
	case isNull(content):
	case r.isStep && slices.Contains(onlyOfChecks, keys[0].path()):
		r.fault(path, node.Line, content, "can never take effect: it is for a completion check; "+
			"write it inside of "+checkBlock)
	case !r.isStep && !r.isCheck && keys[0].path() == decisionPath:
		r.fault(path, node.Line, content, "stands in the defaults; each completion check has its own")
	default:
		for _, k := range keys {
			r.setting(k, path, node, content)
		}
	}
}

// setting reads one value, and tries it.
func (r *layerReader) setting(k key, path string, node, content *yaml.Node) {
	v := fromNode(content)
	if k.secret {
		v = v.masked(content)
	}
	s := placed{key: k, path: path, value: v, from: source{file: r.f.name, line: node.Line}}
	trial := &Config{}
	if invalid := k.kind.set(trial, v); invalid != nil {
		if !slices.ContainsFunc(r.layer.settings, func(other placed) bool { return other.path == path }) {
			r.f.faults = append(r.f.faults, &Error{
				File: r.f.name, Line: invalid.value.line, Key: r.at(path), Value: invalid.value.show,
				Problem: invalid.problem + k.allows(),
			})
			r.layer.settings = append(r.layer.settings, s) // for one error of an error class
		}
		return
	}
	first, twice := r.before[k.path()]
	switch {
	case !twice:
	case path == classPath: // the error class of an action is more exact
		return
	case first.path == classPath:
		r.layer.settings = slices.DeleteFunc(r.layer.settings, func(s placed) bool { return s.key.path() == k.path() })
	case slices.Contains(ofBothActions, k.path()) && first.path != path && first.shown() == s.shown():
		return
	default:
		r.fault(path, node.Line, content, second(r.at(first.path), first.from.line, first.path == path))
		return
	}
	r.before[k.path()] = s
	r.layer.settings = append(r.layer.settings, s)
}

// shown returns the value of a setting as it is printed.
func (s placed) shown() string {
	c := &Config{}
	_ = s.key.kind.set(c, s.value) // it was set before, without an error
	return s.key.kind.show(c)
}

func second(first string, line int, same bool) string {
	if same {
		return "is a second value; the first is in " + position("", line) + "; write one"
	}
	return "is a second value: " + first + " in " + position("", line) + " is the same setting; write one"
}

// at returns the place of a path that is relative to the stall block.
func (r *layerReader) at(path string) string {
	return r.layer.place + strings.TrimPrefix(path, stallBlock)
}

func (r *layerReader) fault(path string, line int, content *yaml.Node, problem string) {
	repeated := show(content)
	if hides(path) || slices.ContainsFunc(innerBlocks, func(b string) bool { return strings.HasPrefix(path, b) }) {
		repeated = mask(content)
	}
	r.f.faults = append(r.f.faults, &Error{
		File: r.f.name, Line: line, Key: r.at(path), Value: repeated, Problem: problem,
	})
}

// unknown reports a key that is not in the table of steps.
func (r *layerReader) unknown(block string, node, content *yaml.Node) {
	name, known := nameOf(node), stepNames(block)
	problem := "stands under an unknown key;"
	path := block
	switch {
	case isMerge(node):
		problem = "is a merge key; write the keys themselves;"
		content = node
	case name == "":
		problem = "is not the name of a key;"
		content = node
	default:
		path += "." + shownName(name)
		if meant := closest(name, known); meant != "" {
			problem += " did you mean " + meant + "?"
		} else if meant := elsewhereInStep(name); meant != "" {
			problem += " did you mean " + r.at(meant) + "?"
		}
	}
	value := show(content)
	if slices.Contains(innerBlocks, block) || hides(path) || !isMerge(node) && name != "" && closest(name, known) == "" {
		value = mask(content)
	}
	r.f.faults = append(r.f.faults, &Error{
		File: r.f.name, Line: node.Line, Key: r.at(path), Value: value,
		Problem: problem + " allowed: the keys " + strings.Join(known, ", "),
	})
}

// elsewhereInStep returns where a name belongs that stands in another block of a stall block, or "".
func elsewhereInStep(name string) string {
	for _, k := range stepKeys {
		if k.name == name {
			return k.path()
		}
	}
	return ""
}
