package config

import (
	"cmp"
	"fmt"

	"go.yaml.in/yaml/v4"
)

// The blocks of a workflow that have stall blocks inside.
const (
	stepsBlock    = "steps"
	defaultsBlock = "defaults"
	checkBlock    = "completion_check"

	checkSuffix = "." + checkBlock // comes after the name of a step for its completion check
	hostReads   = " (if only the host reads it, add its top-level block to HostBlocks of the config.Loader)"
)

// steps reads the stall blocks of the steps of a workflow, which have names or are a list of steps with names.
func (f *file) steps(content *yaml.Node) {
	if content.Kind == yaml.AliasNode {
		f.indirect(stepsBlock, content, true, "an alias")
	}
	if content.Kind == yaml.SequenceNode {
		for i, node := range content.Content {
			f.listed(i, node)
		}
	}
	for key, node := range pairs(content) {
		if isMerge(key) {
			f.indirect(stepsBlock, node, true, "a merge key")
		} else {
			f.step(key.Value, key.Line, node)
		}
	}
}

// listed reads a step of a list, which has its name under id or name.
func (f *file) listed(i int, node *yaml.Node) {
	names := map[string]string{}
	for key, content := range pairs(resolved(node)) {
		names[nameOf(key)] = nameOf(content)
	}
	if name := cmp.Or(names["id"], names["name"]); name != "" {
		f.step(name, node.Line, node)
	} else if line := f.lineOfStall(node, false); line > 0 {
		f.fault(line, fmt.Sprintf("%s[%d].%s", stepsBlock, i, stallBlock),
			"stands in a step without a name; write id: and the name beside it")
	}
}

// step reads the stall block of a step and that of its completion check.
func (f *file) step(name string, line int, node *yaml.Node) {
	w, place := &f.config.workflow, stepsBlock+"."+shownName(name)
	s := workflowStep{name: name, own: f.holder(place, node, false)}
	for key, content := range pairs(node) {
		if nameOf(key) == checkBlock {
			s.check, s.hasCheck = f.holder(place+checkSuffix, content, true), true
		}
	}
	if i, twice := w.index[name]; !twice {
		w.index[name] = len(w.steps)
		w.steps = append(w.steps, s)
	} else if first := w.steps[i]; len(first.own)+len(first.check)+len(s.own)+len(s.check) > 0 {
		f.fault(line, place, "is a second step of this name")
	}
}

// A stallPlace is where a stall block is looked for: in what may be a step, or in what may be a mapping of steps.
type stallPlace struct {
	content *yaml.Node
	isSteps bool
}

// lineOfStall returns the line of a stall block in a step, in its completion check or in what it merges, or in one of
// several steps, or 0. It looks at each node once: a mapping can be merged in many times, and into itself.
func (f *file) lineOfStall(content *yaml.Node, isSteps bool) (line int) {
	content = resolved(content)
	place := stallPlace{content, isSteps}
	if line, known := f.stalls[place]; known {
		return line
	}
	f.stalls[place] = 0
	defer func() { f.stalls[place] = line }()
	for key, inner := range pairs(content) {
		switch name := nameOf(key); {
		case isMerge(key) && resolved(inner).Kind == yaml.SequenceNode:
			for _, each := range resolved(inner).Content {
				line = cmp.Or(line, f.lineOfStall(each, isSteps))
			}
		case isMerge(key):
			line = f.lineOfStall(inner, isSteps)
		case isSteps || name == checkBlock:
			line = f.lineOfStall(inner, false)
		case fold(name) == stallBlock && !isNull(inner):
			line = key.Line
		}
		if line > 0 {
			return line
		}
	}
	return 0
}

// indirect reports a stall block that the file brings in from another place, if there is one.
func (f *file) indirect(place string, content *yaml.Node, isSteps bool, by string) {
	lines := []*yaml.Node{content}
	if list := resolved(content); list.Kind == yaml.SequenceNode {
		lines = list.Content
	}
	for _, each := range lines {
		if line := f.lineOfStall(each, isSteps); line > 0 {
			f.fault(line, place+"."+stallBlock, "comes in by "+by+", which is not read; write the block itself"+hostReads)
			return
		}
	}
}

// holder reads the stall block in a step, a check or the defaults, and reports what was meant to be one or in one.
func (f *file) holder(place string, node *yaml.Node, isCheck bool) []placed {
	r := f.stallReader(place, isCheck)
	if node.Kind == yaml.AliasNode {
		f.indirect(place, node, false, "an alias")
	}
	line := 0
	for key, content := range pairs(node) {
		switch name := nameOf(key); {
		case isMerge(key):
			f.indirect(place, content, false, "a merge key")
		case name == stallBlock && line > 0:
			r.fault(stallBlock, key.Line, content, fmt.Sprintf("is a second block; the first is in line %d; write one", line))
		case name == stallBlock:
			line = key.Line
			r.block(stallBlock, key.Line, content)
		case isCheck && stallBlock+"."+name == decisionPath:
			r.entry(stallBlock, key, content)
		case name != "" && name != checkBlock && !isNull(content):
			f.misplaced(place, key, content)
		}
	}
	return r.settings
}

// stallReader returns the reader of the stall block in a step, in a completion check or in the defaults.
func (f *file) stallReader(place string, isCheck bool) *reader {
	r := f.reader(stepKeys, stallBlock, place+"."+stallBlock, &Config{sources: map[string]source{}})
	r.refuse = func(k key) string {
		unfit := k.ofCheck && !isCheck
		return first([]when{
			{unfit && place != defaultsBlock,
				"can never take effect: it is for a completion check; write it inside of " + checkBlock},
			{unfit && k.path == decisionPath, "stands in the defaults; each completion check has its own"},
		})
	}
	return r
}

// misplaced reports a key beside a stall block that was meant to be one, or to be in one.
func (f *file) misplaced(place string, key, content *yaml.Node) {
	name, at := nameOf(key), place+"."+shownName(nameOf(key))
	nearCheck := distance(name, checkBlock) <= maxTypos
	switch {
	case fold(name) == stallBlock || isTypoOf(stallBlock, name, stepKeys.ours(stallBlock, content)):
		f.fault(key.Line, at, "is an unknown block; did you mean "+stallBlock+"?"+hostReads)
	case !nearCheck && stepKeys.isOurs(stallBlock+"."+fold(name), content):
		f.fault(key.Line, at, "stands outside of the stall block; write it inside of "+place+"."+stallBlock+hostReads)
	case nearCheck && f.lineOfStall(content, false) > 0:
		f.fault(key.Line, at, "is an unknown block; did you mean "+checkBlock+"?"+hostReads)
	default:
		for inner, settings := range pairs(content) {
			if fold(nameOf(inner)) == stallBlock && stepKeys.ours(stallBlock, settings) {
				f.fault(inner.Line, at+"."+stallBlock, "is in the wrong place; write it as "+place+"."+stallBlock+hostReads)
				return
			}
		}
	}
}
