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

// foreign checks a block that is not ours for what was meant to be.
func (f *file) foreign(key, content *yaml.Node) {
	name := nameOf(key)
	switch {
	case slices.Contains(blockNames, name) || slices.Contains(f.hostBlocks, name):
	case mistaken(name) != "":
		f.fault(key.Line, "", "unknown block "+shownName(name)+mistaken(name))
	case name == stepsBlock:
		f.steps(content)
	case name == defaultsBlock:
		f.config.workflow.defaults = f.holder(defaultsBlock, content, false)
	case name == checkBlock:
		w := &f.config.workflow
		w.check, w.hasCheck = f.holder(checkBlock, content, true), true
	}
}

// mistaken returns why the name of a block is a mistake, whatever is in the block and beside it, or "". One that begins
// with a character that cannot be seen was meant to be something else, or to be in the block before it.
func mistaken(name string) string {
	folded := fold(name)
	i := strings.IndexFunc(name, func(r rune) bool { return visible(string(r)) == "" })
	for other, meant := range otherNames {
		if distance(name, other) <= 1 {
			return ", which nothing reads; did you mean " + meant + "?" + hostBlockHint(name)
		}
	}
	if i >= 0 && (i == 0 && folded != "" || slices.Contains(blockNames, folded)) {
		return fmt.Sprintf(": it has a character that cannot be seen, %U; write %s", []rune(name[i:])[0], folded)
	}
	return ""
}

func hostBlockHint(name string) string {
	return " (if only the host reads it, add " + shownName(name) + " to HostBlocks of the config.Loader)"
}

func emptyBlockHint(block string) string {
	return fmt.Sprintf(" (if the key is not the watchdog's, add an empty block: \"%s:\")", block)
}

// dedented checks the other keys of a file that has our block for those that were meant to be in it. A block that is
// empty says that they are the host's, unless one of them follows at once.
func (f *file) dedented(block string, content, root *yaml.Node) {
	var before *yaml.Node
	ours := keys.accepted(block)
	for key, inner := range pairs(root) {
		name := nameOf(key)
		path := block + "." + name
		meant := slices.Contains(ours, name) && (keys.isOurs(path, inner) || isWholly(keys.accepted(path), inner))
		if len(content.Content) == 0 {
			meant = meant && before == content && isNull(content)
		}
		if before = inner; meant && !slices.Contains(slices.Concat(f.hostBlocks, blockNames), name) {
			f.fault(key.Line, "", fmt.Sprintf("%s stands at the top level; write it inside of %s:%s",
				name, block, hostBlockHint(name)))
		}
	}
}

// isWholly reports whether all keys of a mapping are ours, however common each word is.
func isWholly(ours []string, content *yaml.Node) bool {
	for node := range pairs(content) {
		if !slices.Contains(ours, nameOf(node)) {
			return false
		}
	}
	return content.Kind == yaml.MappingNode && len(content.Content) > 0
}

// missing checks a file without our block for a mistyped one: overlooking a limit in silence is worse than an error
// about a key that is the host's after all. Such a host writes an empty block, or names its own in [Loader].
func (f *file) missing(block string, root *yaml.Node) {
	before, ours := len(f.faults), keys.accepted(block)
	for key, content := range pairs(root) {
		name := nameOf(key)
		switch {
		case slices.Contains(f.hostBlocks, name) || mistaken(name) != "":
		case slices.Contains(ours, name) && keys.isOurs(block+"."+name, content):
			f.fault(key.Line, "", fmt.Sprintf("%s stands at the top level; write it inside of %s:%s",
				name, block, emptyBlockHint(block)))
		case isMerge(key) && mergesIn(block, content, map[*yaml.Node]bool{}):
			f.fault(key.Line, "", fmt.Sprintf("a merge key brings in %s, which is not read; write the block itself%s",
				block, emptyBlockHint(block)))
		case isTypoOf(block, name, len(block) > shortName || keys.ours(block, content)):
			f.fault(key.Line, "", fmt.Sprintf("unknown block %s; did you mean %s?%s",
				shownName(name), block, emptyBlockHint(block)))
		}
	}
	if len(f.faults) == before {
		f.nested(block, root)
	}
}

// nested looks for our block inside of another. A long name is enough.
func (f *file) nested(block string, root *yaml.Node) {
	checked := slices.Concat(f.hostBlocks, blockNames, []string{stepsBlock, defaultsBlock, checkBlock})
	for outer, content := range pairs(root) {
		if name := nameOf(outer); slices.Contains(checked, name) || mistaken(name) != "" {
			continue
		}
		for key, inner := range pairs(content) {
			name := nameOf(key)
			long := len(block) > shortName && inner.Kind == yaml.MappingNode && len(inner.Content) > 0
			if distance(name, block) <= maxTypos && (long || keys.ours(block, inner)) {
				f.fault(key.Line, "", fmt.Sprintf("%s stands inside of %s; write %s: at the top level%s",
					shownName(name), shownName(outer.Value), block, emptyBlockHint(block)))
			}
		}
	}
}

// isTypoOf reports whether a name is likely a mistyped name of our block. Some other sign is enough for that, and so is
// a letter more or less, such as in stalls: no other block is called so.
func isTypoOf(block, name string, sign bool) bool {
	typos := distance(name, block)
	return typos <= maxTypos && (sign || typos == 0 || typos == 1 && len(fold(name)) != len(block))
}

// mergesIn reports whether a merge of content would add the block. Anchors can be cyclic: it visits each node once.
func mergesIn(block string, content *yaml.Node, seen map[*yaml.Node]bool) bool {
	content = resolved(content)
	if seen[content] {
		return false
	}
	seen[content] = true
	if content.Kind == yaml.SequenceNode {
		return slices.ContainsFunc(content.Content, func(item *yaml.Node) bool { return mergesIn(block, item, seen) })
	}
	for key, nested := range pairs(content) {
		if nameOf(key) == block || isMerge(key) && mergesIn(block, nested, seen) {
			return true
		}
	}
	return false
}

// resolved returns the node that an alias stands for.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}
