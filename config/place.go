package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// otherNames are what people call our blocks, and which of them they mean.
var otherNames = map[string]string{
	"sentinel": stallBlock + ", or defaults.stall for the steps of a workflow",
	"sweeper":  sweepBlock,
	"watchdog": strings.Join([]string{controlsBlock, stallBlock}, ", ") + " or " + sweepBlock,
}

// The blocks of a workflow that have stall blocks inside.
const (
	stepsBlock    = "steps"
	defaultsBlock = "defaults"
	checkBlock    = "completion_check"
)

// foreign checks a block that is not ours for what was meant to be.
func (f *file) foreign(key, content *yaml.Node) {
	name := nameOf(key)
	switch {
	case slices.Contains(blockNames, name) || slices.Contains(f.hostBlocks, name):
	case mistaken(name) != "":
		f.fault(key.Line, "unknown block "+shownName(name)+mistaken(name))
	case name == stepsBlock:
		f.steps(content)
	case name == defaultsBlock:
		f.config.workflow.defaults = f.holder(defaultsBlock, content, &layerReader{})
	case name == checkBlock:
		w := &f.config.workflow
		w.check, w.hasCheck = f.holder(checkBlock, content, &layerReader{isCheck: true}), true
	}
}

// mistaken returns why the name of a block is a mistake, whatever is in the block and beside it, or "".
func mistaken(name string) string {
	folded := fold(name)
	if slices.Contains(blockNames, folded) && visible(name) != name {
		return fmt.Sprintf(": it has a character that cannot be seen, %U; write %s", invisible(name), folded)
	}
	for other, meant := range otherNames {
		if distance(name, other) <= 1 {
			return ", which nothing reads; did you mean " + meant + "?" + hostBlockHint(name)
		}
	}
	return ""
}

// invisible returns the first character of a name that cannot be seen.
func invisible(name string) rune {
	i := strings.IndexFunc(name, func(r rune) bool { return visible(string(r)) == "" })
	return []rune(name[i:])[0]
}

func hostBlockHint(name string) string {
	return " (if only the host reads it, add " + shownName(name) + " to HostBlocks of the config.Loader)"
}

// lineOfStall returns the line of a stall block in a mapping, in its completion check or in what it merges, or 0. Found
// has the lines that are known: a mapping can be merged in many times, and into itself.
func lineOfStall(content *yaml.Node, found map[*yaml.Node]int) (line int) {
	if line, known := found[content]; known {
		return line
	}
	found[content] = 0
	defer func() { found[content] = line }()
	switch content.Kind {
	case yaml.AliasNode:
		return lineOfStall(content.Alias, found)
	case yaml.MappingNode:
		for key, inner := range pairs(content) {
			if fold(nameOf(key)) == stallBlock && !isNull(inner) {
				return key.Line
			}
			if nameOf(key) == checkBlock && lineOfStall(inner, found) > 0 {
				return lineOfStall(inner, found)
			}
		}
		for key, merged := range pairs(content) {
			if isMerge(key) {
				return lineOfMerged(merged, found)
			}
		}
	}
	return 0
}

func lineOfMerged(merged *yaml.Node, found map[*yaml.Node]int) int {
	if merged.Kind != yaml.SequenceNode {
		return lineOfStall(merged, found)
	}
	for _, each := range merged.Content {
		if line := lineOfStall(each, found); line > 0 {
			return line
		}
	}
	return 0
}

// resolved returns the node that an alias stands for.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}
