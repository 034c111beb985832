package config

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"
)

// steps reads the stall blocks of the steps of a workflow, which have names or are a list of steps with names.
func (f *file) steps(content *yaml.Node) {
	merged := map[*yaml.Node]int{}
	if content.Kind == yaml.AliasNode && lineOfStallInSteps(content, f.stalls, merged) > 0 {
		line := lineOfStallInSteps(content, f.stalls, merged)
		f.indirect(stepsBlock, line, "an alias")
		return
	}
	if content.Kind == yaml.SequenceNode {
		for i, node := range content.Content {
			f.listed(i, node)
		}
		return
	}
	for key, node := range pairs(content) {
		if !isMerge(key) {
			f.step(key.Value, key.Line, node)
		} else if line := lineOfStallInSteps(node, f.stalls, merged); line > 0 {
			f.indirect(stepsBlock, line, "a merge key")
		}
	}
}

// lineOfStallInSteps is lineOfStall for a mapping of steps, or a list of such mappings to merge. Found has the lines
// that are known: a mapping can be merged in many times, and into itself.
func lineOfStallInSteps(content *yaml.Node, steps, found map[*yaml.Node]int) (line int) {
	content = resolved(content)
	if line, known := found[content]; known {
		return line
	}
	found[content] = 0
	defer func() { found[content] = line }()
	if content.Kind == yaml.SequenceNode {
		for _, each := range content.Content {
			if line := lineOfStallInSteps(each, steps, found); line > 0 {
				return line
			}
		}
	}
	for key, node := range pairs(content) {
		line := lineOfStall(node, steps)
		if isMerge(key) {
			line = lineOfStallInSteps(node, steps, found)
		}
		if line > 0 {
			return line
		}
	}
	return 0
}

// listed reads a step of a list, which has its name under id or name.
func (f *file) listed(i int, node *yaml.Node) {
	name := ""
	for key, content := range pairs(resolved(node)) {
		switch nameOf(key) {
		case "id":
			name = nameOf(content)
		case "name":
			if name == "" {
				name = nameOf(content)
			}
		}
	}
	if line := lineOfStall(node, f.stalls); name == "" && line > 0 {
		f.faults = append(f.faults, &Error{
			File: f.name, Line: line, Key: fmt.Sprintf("%s[%d].%s", stepsBlock, i, stallBlock),
			Problem: "stands in a step without a name; write id: and the name beside it",
		})
		return
	}
	if name != "" {
		f.step(name, node.Line, node)
	}
}

// step reads the stall block of a step and that of its completion check.
func (f *file) step(name string, line int, node *yaml.Node) {
	w, place := &f.config.workflow, stepsBlock+"."+shownName(name)
	s := workflowStep{name: name, own: f.holder(place, node, &layerReader{isStep: true})}
	if node.Kind == yaml.MappingNode {
		for key, content := range pairs(node) {
			if nameOf(key) == checkBlock {
				s.check, s.hasCheck = f.holder(place+checkSuffix, content, &layerReader{isCheck: true}), true
			}
		}
	}
	if i, twice := w.index[name]; twice {
		if first := w.steps[i]; len(first.own.settings)+len(first.check.settings)+
			len(s.own.settings)+len(s.check.settings) > 0 {
			f.faults = append(f.faults, &Error{File: f.name, Line: line, Key: place, Problem: "is a second step of this name"})
		}
		return
	}
	if w.index == nil {
		w.index = map[string]int{}
	}
	w.index[name] = len(w.steps)
	w.steps = append(w.steps, s)
}

// indirect reports a stall block that the file brings in from another place.
func (f *file) indirect(place string, line int, by string) {
	f.faults = append(f.faults, &Error{
		File: f.name, Line: line, Key: place + "." + stallBlock,
		Problem: "comes in by " + by + ", which is not read; write the block itself" + hostReads,
	})
}

const hostReads = " (if only the host reads it, add its top-level block to HostBlocks of the config.Loader)"

// holder reads the stall block in a step, in a completion check or in the defaults, and reports what was meant to be
// one, or to be in one.
func (f *file) holder(place string, node *yaml.Node, r *layerReader) layer {
	r.f, r.layer.place, r.before = f, place+"."+stallBlock, map[string]placed{}
	if line := lineOfStall(node, f.stalls); node.Kind == yaml.AliasNode && line > 0 {
		f.indirect(place, line, "an alias")
	}
	if node.Kind != yaml.MappingNode {
		return r.layer
	}
	line := 0
	for key, content := range pairs(node) {
		line = f.held(place, key, content, r, line)
	}
	return r.layer
}

// held reads one key of a holder. It returns the line of the stall block, which is 0 until there was one.
func (f *file) held(place string, key, content *yaml.Node, r *layerReader, line int) int {
	switch name := nameOf(key); {
	case isMerge(key):
		if merged := lineOfMerged(content, f.stalls); merged > 0 {
			f.indirect(place, merged, "a merge key")
		}
	case name == stallBlock && line > 0:
		r.fault(stallBlock, key.Line, content, fmt.Sprintf("is a second block; the first is in line %d; write one", line))
	case name == stallBlock:
		r.read(stallBlock, key.Line, content)
		return key.Line
	case name == "decision_file" && r.isCheck:
		r.entry(stallBlock, key, content)
	default:
		f.misplaced(place, key, content)
	}
	return line
}

// misplaced reports a key beside a stall block that was meant to be one, or to be in one.
func (f *file) misplaced(place string, key, content *yaml.Node) {
	name, problem := nameOf(key), ""
	switch {
	case isNull(content) || name == checkBlock:
	case isStepTypo(name, content):
		problem = "is an unknown block; did you mean " + stallBlock + "?"
	case fold(name) != checkBlock && distance(name, checkBlock) > maxTypos && isOfStall(name, content):
		problem = "stands outside of the stall block; write it inside of " + place + "." + stallBlock
	case distance(name, checkBlock) <= maxTypos && lineOfStall(content, f.stalls) > 0:
		problem = "is an unknown block; did you mean " + checkBlock + "?"
	default:
		if line := lineOfNested(content); line > 0 {
			f.faults = append(f.faults, &Error{
				File: f.name, Line: line, Key: place + "." + shownName(name) + "." + stallBlock,
				Problem: "is in the wrong place; write it as " + place + "." + stallBlock + hostReads,
			})
		}
	}
	if problem != "" {
		f.faults = append(f.faults, &Error{
			File: f.name, Line: key.Line, Key: place + "." + shownName(name), Problem: problem + hostReads,
		})
	}
}

// isStepTypo reports whether a name in a step is likely a mistyped stall. See isTypoOf.
func isStepTypo(name string, content *yaml.Node) bool {
	typos := distance(name, stallBlock)
	letter := typos == 0 || typos == 1 && len(fold(name)) != len(stallBlock)
	return letter || fold(name) == stallBlock || typos <= maxTypos && hasStepKeys(content)
}

// isOfStall reports whether a name is that of a setting of a stall block, and of nothing else.
func isOfStall(name string, content *yaml.Node) bool {
	path := stallBlock + "." + name
	switch path {
	case alsoEndBlock: // no other program has this name
		return true
	case probeBlock:
		return hasKeysOf(probeBlock, content)
	}
	return path != decisionPath && slices.ContainsFunc(stepKeysAt(path), func(k key) bool { return !k.common })
}

// hasStepKeys reports whether a mapping has a setting of a stall block.
func hasStepKeys(content *yaml.Node) bool {
	for key, inner := range pairs(content) {
		if isOfStall(nameOf(key), inner) {
			return true
		}
	}
	return false
}

// hasKeysOf reports whether a mapping has a setting of an inner block that nothing else has.
func hasKeysOf(block string, content *yaml.Node) bool {
	for node := range pairs(content) {
		if slices.ContainsFunc(stepKeysAt(block+"."+nameOf(node)), func(k key) bool { return !k.common }) {
			return true
		}
	}
	return false
}

// lineOfNested returns the line of a stall block with a setting of ours in the mapping, or 0.
func lineOfNested(content *yaml.Node) int {
	if content.Kind != yaml.MappingNode {
		return 0
	}
	for key, inner := range pairs(content) {
		if fold(nameOf(key)) == stallBlock && inner.Kind == yaml.MappingNode && hasStepKeys(inner) {
			return key.Line
		}
	}
	return 0
}
