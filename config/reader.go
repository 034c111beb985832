package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A reader reads the settings of one of our blocks, of a scope, or of a stall block in a workflow.
type reader struct {
	f        *file
	rows     table
	root     string                   // the path of the block in the table
	place    string                   // and in the file
	refuse   func(k key) (why string) // says why a key of the table may not stand here; nil for no such key
	config   *Config                  // where the settings are kept
	settings []placed                 // those that were read
	before   map[string]placed        // by their key's path, or that of an inner block
}

func (f *file) reader(rows table, root, place string, into *Config) *reader {
	return &reader{f: f, rows: rows, root: root, place: place, config: into, before: map[string]placed{}}
}

// at returns the place of a path of the table.
func (r *reader) at(path string) string {
	if rest, inside := strings.CutPrefix(path, r.root); inside {
		return r.place + rest
	}
	return path
}

func (r *reader) fault(path string, line int, content *yaml.Node, problem string) {
	repeated := show(content)
	if r.rows.hides(path) {
		repeated = mask(content)
	}
	r.f.faults = append(r.f.faults, &Error{
		File: r.f.name, Line: line, Key: r.at(path), Value: repeated, Problem: problem,
	})
}

// block reads a block or an inner one. An unknown key in it is an error.
func (r *reader) block(path string, line int, content *yaml.Node) {
	switch {
	case isNull(content):
	case content.Kind == yaml.AliasNode:
		r.fault(path, line, content, "is an alias; write the block itself")
	case content.Kind != yaml.MappingNode:
		r.fault(path, line, content, "is not a mapping; allowed: the keys "+strings.Join(r.rows.names(path), ", "))
	case content.Style&yaml.TaggedStyle != 0:
		r.fault(path, line, content, "has a tag; write the block without it")
	default:
		for node, inner := range pairs(content) {
			r.entry(path, node, inner)
		}
	}
}

// entry reads one key of a block. A key of several actions may also be a block.
func (r *reader) entry(block string, node, content *yaml.Node) {
	path := block + "." + nameOf(node)
	found := r.rows.at(path)
	isBlock := r.rows.isBlock(path) && (len(found) == 0 || content.Kind == yaml.MappingNode)
	switch {
	case nameOf(node) == "" || len(found) == 0 && !isBlock:
		r.unknown(block, node, content)
	case isBlock:
		if !r.second(path+".", path, node, content) {
			r.before[path+"."] = placed{path: path, from: source{line: node.Line}}
			r.block(path, content.Line, content)
		}
	default:
		for _, k := range found {
			if !r.setting(k, path, node, content) {
				break // one error is enough
			}
		}
	}
}

// second reports a setting or a block that was there before.
func (r *reader) second(key, path string, node, content *yaml.Node) bool {
	first, twice := r.before[key]
	if !twice {
		return false
	}
	problem := fmt.Sprintf("is a second value; the first is in line %d; write one", first.from.line)
	if first.path != path {
		name, same := strings.CutPrefix(first.path, path[:strings.LastIndex(path, ".")]+".")
		if !same || strings.Contains(name, ".") {
			name = r.at(first.path)
		}
		problem = fmt.Sprintf("is a second value: %s in line %d is the same setting; write one", name, first.from.line)
	}
	r.fault(path, node.Line, content, problem)
	return true
}

// setting reads the value of a key, and reports whether there is no error in it.
func (r *reader) setting(k key, path string, node, content *yaml.Node) bool {
	s := placed{key: k, path: path, place: r.at(path), from: source{
		file: r.f.name, line: node.Line, other: k.other != "" && path != k.path,
	}}
	switch first, twice := r.before[k.path]; {
	case !twice:
	case first.path != path && path == classPath: // the error class of an action is more exact
		return true
	case first.path != path && first.path == classPath:
		r.settings = slices.DeleteFunc(r.settings, func(s placed) bool { return s.key.path == k.path })
	case first.path != path && len(k.also) > 1 && k.sameValue(first.value, fromNode(content)):
		return true
	default:
		return !r.second(k.path, path, node, content)
	}
	r.before[k.path] = s
	if isNull(content) {
		return true
	}
	if r.refuse != nil && r.refuse(k) != "" {
		r.fault(path, node.Line, content, r.refuse(k))
		return false
	}
	if k.path == scopesPath {
		r.f.scopes(k, node, content)
		return true
	}
	s.value = fromNode(content)
	if k.secret {
		s.value = s.value.masked(content)
	}
	if invalid := k.set(r.config, s.value); invalid != nil {
		from := s.from
		from.line = invalid.value.line
		r.f.faults = append(r.f.faults, from.fault(r.at(path), invalid.value.show, invalid.problem+k.allowedText()))
		return false
	}
	r.before[k.path] = s
	r.settings = append(r.settings, s)
	r.config.sources[k.path] = s.from
	return true
}

// sameValue reports whether two values are one: a workflow may write some settings of both actions for each.
func (k key) sameValue(first, second value) bool {
	one, other := &Config{}, &Config{}
	return k.set(one, first) == nil && k.set(other, second) == nil && k.show(one) == k.show(other)
}

// unknown reports a key that is not in the table. It never shows the value, which may be a secret.
func (r *reader) unknown(block string, node, content *yaml.Node) {
	name, known := nameOf(node), r.rows.names(block)
	fault := &Error{File: r.f.name, Line: node.Line, Key: r.at(block), Value: mask(content)}
	r.f.faults = append(r.f.faults, fault)
	use, isGone := gone[block+"."+name]
	switch {
	case isMerge(node):
		fault.Value, fault.Problem = show(node), "is a merge key; write the keys themselves;"
	case name == "":
		fault.Value, fault.Problem = show(node), "is not the name of a key;"
	case isGone:
		fault.Key += "." + name
		instead, _ := r.rows.key(use)
		if use = instead.name(); instead.block() != block {
			use = r.at(instead.path)
		}
		fault.Problem = "stands under a key that is gone; use " + use + ": " + instead.allowed + ";"
	default:
		fault.Key += "." + shownName(name)
		fault.Problem = "stands under an unknown key;"
		if meant := r.meant(block, name); meant != "" {
			fault.Problem += " did you mean " + meant + "?"
		}
	}
	fault.Problem += " allowed: the keys " + strings.Join(known, ", ")
}

// meant returns what was likely meant by an unknown key, or "". One in an inner block goes before a name that is only
// near: pace belongs in keeper, and is no typo of grace.
func (r *reader) meant(block, name string) string {
	var inside []string
	for _, k := range r.rows {
		if k.name() == name && strings.HasPrefix(k.block(), block+".") {
			inside = append(inside, r.at(k.path))
		}
	}
	near := closest(name, r.rows.accepted(block))
	switch {
	case len(inside) == 1 || len(inside) > 1 && near == "":
		return inside[0]
	case near != "":
		return near
	case slices.Contains(blockNames, name):
		return name + ": at the top level"
	case name == "limits" && r.root == scopesPath:
		return "spend"
	}
	for _, k := range r.rows {
		if k.name() == name && !k.common || slices.Contains(k.synonyms, name) {
			return r.at(k.path)
		}
	}
	return ""
}
