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
	problem := ""
	if isBlock := slices.Contains(blockNames, folded); i >= 0 && (isBlock || i == 0 && name[0] > ' ' && folded != "") {
		problem = fmt.Sprintf(": it has a character that cannot be seen, %U; write %s", []rune(name[i:])[0], folded)
		if !isBlock {
			problem += hostBlockHint(name)
		}
	}
	return problem
}

func hostBlockHint(name string) string {
	return " (if only the host reads it, add " + shownName(name) + " to HostBlocks of the config.Loader)"
}

func emptyBlockHint(block string) string {
	return fmt.Sprintf(" (if the key is not the watchdog's, add an empty block: \"%s:\")", block)
}

// dedented checks the other keys of a file that has our block for those that were meant to be in it. A block of nothing
// says that they are the host's, unless one of them follows at once.
func (f *file) dedented(block string, content, root *yaml.Node) {
	var before *yaml.Node
	ours := keys.accepted(block)
	for key, inner := range pairs(root) {
		name, into := nameOf(key), ""
		path := block + "." + name
		if tail := emptyTail(block, content); before == content && slices.Contains(keys.accepted(tail), name) {
			into = tail
		} else if len(content.Content) > 0 && slices.Contains(ours, name) &&
			(keys.isOurs(path, inner) || isWholly(path, inner)) {
			into = block
		}
		if before = inner; into != "" && !slices.Contains(slices.Concat(f.hostBlocks, blockNames), name) {
			f.fault(key.Line, "", fmt.Sprintf("%s stands at the top level; write it inside of %s:%s",
				name, into, hostBlockHint(name)))
		}
	}
}

// emptyTail returns the path of the last inner block, or of the block itself, if nothing is written in it, or "".
func emptyTail(path string, content *yaml.Node) string {
	for n := len(content.Content); n > 0 && content.Kind == yaml.MappingNode; n = len(content.Content) {
		path, content = path+"."+nameOf(content.Content[n-2]), content.Content[n-1]
	}
	if !isNull(content) || !keys.isBlock(path) {
		return ""
	}
	return path
}

// isWholly reports whether all keys of a mapping are, or were, those of our block, however common each word is.
func isWholly(block string, content *yaml.Node) bool {
	ours := keys.accepted(block)
	for node := range pairs(content) {
		name := nameOf(node)
		if _, retired := Retired("key", block+"."+name); !retired && !slices.Contains(ours, name) {
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

func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}
