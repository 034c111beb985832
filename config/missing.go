package config

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"
)

// missing checks a file without our block for a mistyped one: overlooking a limit in silence is worse than an error
// about a key that is the host's after all. Such a host writes an empty block, or names its own in [Loader].
func (f *file) missing(block string, root *yaml.Node) {
	before, ours := len(f.faults), names(block)
	for key, content := range pairs(root) {
		name := nameOf(key)
		switch {
		case slices.Contains(f.hostBlocks, name) || mistaken(name) != "":
		case slices.Contains(ours, canonical(block, name)) && hasOurKeys(block+"."+canonical(block, name), content):
			f.fault(key.Line, fmt.Sprintf("%s stands at the top level; write it inside of %s:%s",
				name, block, emptyBlockHint(block)))
		case isMerge(key) && mergesIn(block, content, map[*yaml.Node]bool{}):
			f.fault(key.Line, fmt.Sprintf("a merge key brings in %s, which is not read; write the block itself%s",
				block, emptyBlockHint(block)))
		case isTypoOf(block, name, content):
			f.fault(key.Line, fmt.Sprintf("unknown block %s; did you mean %s?%s",
				shownName(name), block, emptyBlockHint(block)))
		}
	}
	if len(f.faults) == before {
		f.nested(block, root)
	}
}

// nested looks for our block inside of another.
func (f *file) nested(block string, root *yaml.Node) {
	checked := slices.Concat(f.hostBlocks, blockNames, []string{stepsBlock, defaultsBlock, checkBlock})
	for outer, content := range pairs(root) {
		name := nameOf(outer)
		if slices.Contains(checked, name) || mistaken(name) != "" || content.Kind != yaml.MappingNode {
			continue
		}
		for key, inner := range pairs(content) {
			name := nameOf(key)
			if distance(name, block) <= maxTypos && inner.Kind == yaml.MappingNode && isOurs(block, inner) {
				f.fault(key.Line, fmt.Sprintf("%s stands inside of %s; write %s: at the top level%s",
					shownName(name), shownName(outer.Value), block, emptyBlockHint(block)))
			}
		}
	}
}

// isOurs reports whether a block with a name near ours is taken for it: a long name is enough.
func isOurs(block string, content *yaml.Node) bool {
	return len(block) > shortName && len(content.Content) > 0 || hasOurKeys(block, content)
}

// shortName is the length up to which a name near ours is taken for the host's: many words are near stall, such as
// state.
const shortName = 8

// isTypoOf reports whether a name is likely a mistyped name of our block. A long name is enough for that, and so is a
// short one with a letter more or less, such as stalls: no other block is called so.
func isTypoOf(block, name string, content *yaml.Node) bool {
	typos := distance(name, block)
	letter := typos == 0 || typos == 1 && len(fold(name)) != len(block)
	return typos <= maxTypos && (len(block) > shortName || letter || hasOurKeys(block, content))
}

// hasOurKeys reports whether the content under one of our names is ours. The name of a setting is enough, unless it
// is a common one; the name of a block, such as events, is a common word: one of its settings must be in it.
func hasOurKeys(path string, content *yaml.Node) bool {
	if path == scopesPath { // other programs have scopes, too, such as those of a token
		return hasScopes(content)
	}
	if k, known := keyAt(path); known {
		return !k.common
	}
	if path == alsoEndBlock { // no other program has this name
		return true
	}
	if content.Kind == yaml.MappingNode {
		for key, inner := range pairs(content) {
			if name := nameOf(key); slices.Contains(names(path), name) && hasOurKeys(path+"."+name, inner) {
				return true
			}
		}
	}
	return false
}

func emptyBlockHint(block string) string {
	return fmt.Sprintf(" (if the key is not the watchdog's, add an empty block: \"%s:\")", block)
}

// mergesIn reports whether a merge of content would add the block. Anchors can be cyclic: it visits each node once.
func mergesIn(block string, content *yaml.Node, seen map[*yaml.Node]bool) bool {
	if seen[content] {
		return false
	}
	seen[content] = true
	switch content.Kind {
	case yaml.AliasNode:
		return mergesIn(block, content.Alias, seen)
	case yaml.SequenceNode:
		return slices.ContainsFunc(content.Content, func(item *yaml.Node) bool { return mergesIn(block, item, seen) })
	case yaml.MappingNode:
		for key, nested := range pairs(content) {
			if nameOf(key) == block || isMerge(key) && mergesIn(block, nested, seen) {
				return true
			}
		}
	}
	return false
}
