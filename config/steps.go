package config

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"
)

// steps reads the stall blocks of the steps of a workflow, which have names or are a list of steps with names.
func (f *file) steps(content *yaml.Node) {
	merged := map[*yaml.Node]int{}
	if content.Kind == yaml.AliasNode {
		f.indirect(stepsBlock, f.lineInSteps(content, merged), "an alias")
		return
	}
	if content.Kind == yaml.SequenceNode {
		for i, node := range content.Content {
			f.listed(i, node)
		}
	}
	for key, node := range pairs(content) {
		if isMerge(key) {
			f.indirect(stepsBlock, f.lineInSteps(node, merged), "a merge key")
			continue
		}
		f.step(key.Value, key.Line, node)
	}
}

// lineOfStall returns the line of a stall block in a mapping, in its completion check or in what it merges, or 0. Found
// has the lines that are known: a mapping can be merged in many times, and into itself.
func lineOfStall(content *yaml.Node, found map[*yaml.Node]int) (line int) {
	content = resolved(content)
	if line, known := found[content]; known {
		return line
	}
	found[content] = 0
	defer func() { found[content] = line }()
	for key, inner := range pairs(content) {
		if fold(nameOf(key)) == stallBlock && !isNull(inner) {
			return key.Line
		}
		if line := lineOfStall(inner, found); nameOf(key) == checkBlock && line > 0 {
			return line
		}
	}
	for key, merged := range pairs(content) {
		if isMerge(key) {
			return lineOfMerged(merged, func(node *yaml.Node) int { return lineOfStall(node, found) })
		}
	}
	return 0
}

// lineOfMerged returns the first line that one of the merged mappings has.
func lineOfMerged(merged *yaml.Node, lineOf func(*yaml.Node) int) int {
	if resolved(merged).Kind != yaml.SequenceNode {
		return lineOf(merged)
	}
	for _, each := range resolved(merged).Content {
		if line := lineOf(each); line > 0 {
			return line
		}
	}
	return 0
}

// lineInSteps is lineOfStall for a mapping of steps, or a list of such mappings to merge.
func (f *file) lineInSteps(content *yaml.Node, found map[*yaml.Node]int) (line int) {
	content = resolved(content)
	if line, known := found[content]; known {
		return line
	}
	found[content] = 0
	defer func() { found[content] = line }()
	inSteps := func(node *yaml.Node) int { return f.lineInSteps(node, found) }
	if content.Kind == yaml.SequenceNode {
		return lineOfMerged(content, inSteps)
	}
	for key, node := range pairs(content) {
		line := lineOfStall(node, f.stalls)
		if isMerge(key) {
			line = inSteps(node)
		}
		if line > 0 {
			return line
		}
	}
	return 0
}

// listed reads a step of a list, which has its name under id or name.
func (f *file) listed(i int, node *yaml.Node) {
	names := map[string]string{}
	for key, content := range pairs(resolved(node)) {
		names[nameOf(key)] = nameOf(content)
	}
	name := names["id"]
	if name == "" {
		name = names["name"]
	}
	if name != "" {
		f.step(name, node.Line, node)
	} else if line := lineOfStall(node, f.stalls); line > 0 {
		f.faultAt(line, fmt.Sprintf("%s[%d].%s", stepsBlock, i, stallBlock),
			"stands in a step without a name; write id: and the name beside it")
	}
}

// step reads the stall block of a step and that of its completion check.
func (f *file) step(name string, line int, node *yaml.Node) {
	w, place := &f.config.workflow, stepsBlock+"."+shownName(name)
	s := workflowStep{name: name, own: f.holder(place, node, false, true)}
	for key, content := range pairs(node) {
		if nameOf(key) == checkBlock {
			s.check, s.hasCheck = f.holder(place+checkSuffix, content, true, false), true
		}
	}
	if i, twice := w.index[name]; twice {
		if first := w.steps[i]; len(slices.Concat(first.own.settings, first.check.settings, s.own.settings, s.check.settings)) > 0 {
			f.faultAt(line, place, "is a second step of this name")
		}
		return
	}
	if w.index == nil {
		w.index = map[string]int{}
	}
	w.index[name] = len(w.steps)
	w.steps = append(w.steps, s)
}

const hostReads = " (if only the host reads it, add its top-level block to HostBlocks of the config.Loader)"

// indirect reports a stall block that the file brings in from another place, if there is one.
func (f *file) indirect(place string, line int, by string) {
	if line > 0 {
		f.faultAt(line, place+"."+stallBlock, "comes in by "+by+", which is not read; write the block itself"+hostReads)
	}
}

// holder reads the stall block in a step, in a completion check or in the defaults, and reports what was meant to be
// one, or to be in one.
func (f *file) holder(place string, node *yaml.Node, isCheck, isStep bool) layer {
	r := f.reader(stepKeys, stallBlock, place+"."+stallBlock, &Config{sources: map[string]source{}})
	r.refuse = func(k key) string {
		switch {
		case isStep && k.ofCheck:
			return "can never take effect: it is for a completion check; write it inside of " + checkBlock
		case !isStep && !isCheck && k.path == decisionPath:
			return "stands in the defaults; each completion check has its own"
		}
		return ""
	}
	if node.Kind == yaml.AliasNode {
		f.indirect(place, lineOfStall(node, f.stalls), "an alias")
	}
	line := 0
	for key, content := range pairs(node) {
		switch name := nameOf(key); {
		case isMerge(key):
			f.indirect(place, lineOfMerged(content, func(n *yaml.Node) int { return lineOfStall(n, f.stalls) }), "a merge key")
		case name == stallBlock && line > 0:
			r.fault(stallBlock, key.Line, content, fmt.Sprintf("is a second block; the first is in line %d; write one", line))
		case name == stallBlock:
			line = key.Line
			r.block(stallBlock, key.Line, content)
		case name == "decision_file" && isCheck:
			r.entry(stallBlock, key, content)
		default:
			f.misplaced(place, key, content)
		}
	}
	return layer{place: place + "." + stallBlock, settings: r.settings}
}

// misplaced reports a key beside a stall block that was meant to be one, or to be in one.
func (f *file) misplaced(place string, key, content *yaml.Node) {
	name := nameOf(key)
	at := place + "." + shownName(name)
	var problem string
	far := distance(name, checkBlock) > maxTypos
	switch {
	case name == "" || isNull(content) || name == checkBlock:
		return
	case fold(name) == stallBlock || isTypoOf(stallBlock, name, stepKeys.ours(stallBlock, content)):
		problem = "is an unknown block; did you mean " + stallBlock + "?"
	case far && stepKeys.isOurs(stallBlock+"."+fold(name), content):
		problem = "stands outside of the stall block; write it inside of " + place + "." + stallBlock
	case !far && lineOfStall(content, f.stalls) > 0:
		problem = "is an unknown block; did you mean " + checkBlock + "?"
	default:
		for inner, settings := range pairs(content) {
			if fold(nameOf(inner)) == stallBlock && stepKeys.ours(stallBlock, settings) {
				f.faultAt(inner.Line, at+"."+stallBlock, "is in the wrong place; write it as "+place+"."+stallBlock+hostReads)
				return
			}
		}
		return
	}
	f.faultAt(key.Line, at, problem+hostReads)
}
