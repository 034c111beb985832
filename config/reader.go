package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// A reader reads the settings of one of our blocks, or of a stall block in a workflow.
type reader struct {
	f           *file
	rows        table
	root, place string                   // the path of the block in the table, and in the file
	refuse      func(k key) (why string) // says why a key of the table may not stand here; nil for no such key
	config      *Config                  // where the settings are kept
	settings    []placed                 // those that were read
	before      map[string]placed        // by their key's path, or by that of an inner block and a dot
	unknowns    int                      // how many keys are unknown
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
	if r.rows.hides(path) || strings.Contains(content.Value, ":") { // which may be an unknown key with its value
		repeated = mask(content)
	}
	r.f.faults = append(r.f.faults, source{file: r.f.name, line: line}.fault(r.at(path), repeated, problem))
}

// block reads a block or an inner one. An unknown key in it is an error.
func (r *reader) block(path string, line int, content *yaml.Node) {
	problem := first([]when{
		{content.Kind == yaml.AliasNode, "is an alias; write the block itself"},
		{content.Kind != yaml.MappingNode, "is not a mapping; allowed: the keys " + strings.Join(r.rows.names(path), ", ")},
		{content.Style&yaml.TaggedStyle != 0, "has a tag; write the block without it"},
	})
	if problem != "" && !isNull(content) {
		r.fault(path, line, content, problem)
		return
	}
	for node, inner := range pairs(content) {
		r.entry(path, node, inner)
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
			if r.supersedes(k, path, node, content) && !r.setting(k, path, node, content) {
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

// supersedes reports whether a setting is to be read: it is the only one, or more exact than the one before. A workflow
// may write some settings of both actions for each, if they say the same.
func (r *reader) supersedes(k key, path string, node, content *yaml.Node) bool {
	first, twice := r.before[k.path]
	switch {
	case !twice:
		return true
	case first.path == path:
	case path == classPath: // the error class of an action is more exact
		return false
	case first.path == classPath:
		r.settings = slices.DeleteFunc(r.settings, func(s placed) bool { return s.key.path == k.path })
		return true
	case len(k.also) > 1:
		one, other := &Config{}, &Config{}
		if k.set(one, first.value) == nil && k.set(other, fromNode(content)) == nil && k.show(one) == k.show(other) {
			return false
		}
	}
	r.second(k.path, path, node, content)
	return false
}

// setting reads the value of a key, and reports whether there is no error in it.
func (r *reader) setting(k key, path string, node, content *yaml.Node) bool {
	s := placed{key: k, path: path, place: r.at(path), value: fromNode(content), from: source{
		file: r.f.name, line: node.Line, other: k.other != "" && path != k.path,
	}}
	if k.secret {
		s.value = s.value.masked(content)
	}
	r.before[k.path] = s
	switch {
	case isNull(content):
		return true
	case r.refuse != nil && r.refuse(k) != "":
		r.fault(path, node.Line, content, r.refuse(k))
		return false
	}
	if invalid := k.set(r.config, s.value); invalid != nil {
		at := source{file: r.f.name, line: invalid.value.line}
		r.f.faults = append(r.f.faults, at.fault(s.place, invalid.value.show, invalid.problem+k.allowedText()))
		return false
	}
	r.settings = append(r.settings, s)
	r.config.sources[k.path] = s.from
	return true
}

// unknown reports a key that is not in the table. It never shows the value, which may be a secret.
func (r *reader) unknown(block string, node, content *yaml.Node) {
	name, at, value := nameOf(node), r.at(block), show(node)
	var problem string
	instead, retired := Retired("key", block+"."+name)
	switch {
	case isMerge(node):
		problem = "is a merge key; write the keys themselves;"
	case name == "":
		problem = "is not the name of a key;"
	case retired:
		fault := source{file: r.f.name, line: node.Line}.fault(at+"."+name, mask(content), isGone+instead)
		r.f.faults = append(r.f.faults, fault)
		return
	default:
		at, value, problem = at+"."+shownName(name), mask(content), "stands under an unknown key;"
		if r.unknowns++; r.unknowns > maxErrors { // no error after these is listed
			break
		}
		if meant := r.meant(block, name); meant != "" {
			problem += " did you mean " + meant + "?"
		}
	}
	r.f.faults = append(r.f.faults, source{file: r.f.name, line: node.Line}.fault(at, value,
		problem+" allowed: the keys "+strings.Join(r.rows.names(block), ", ")))
}

// meant returns what was likely meant by an unknown key, or "". One in an inner block goes before a name that is only
// near: pace belongs in keeper, and is no typo of grace.
func (r *reader) meant(block, name string) string {
	var inside, elsewhere []string
	for _, k := range r.rows {
		switch isNamed := k.name() == name; {
		case isNamed && strings.HasPrefix(k.block(), block+"."):
			inside = append(inside, r.at(k.path))
		case isNamed && !k.common || slices.Contains(k.synonyms, name):
			elsewhere = append(elsewhere, r.at(k.path))
		}
	}
	near := closest(name, r.rows.accepted(block))
	switch {
	case len(inside) == 1:
		return inside[0]
	case near != "":
		return near
	case r.isOther(name):
		return name + ": at the top level"
	}
	return append(slices.Concat(inside, elsewhere), "")[0]
}

func (r *reader) isOther(block string) bool {
	return block != r.root && slices.Contains(blockNames, block)
}
