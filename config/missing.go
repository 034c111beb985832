package config

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"
)

// missing looks, in a file without our block, for what was most likely meant to be it: a limit that is overlooked in
// silence is worse than an error about a key that is the host's after all. Such a host writes an empty block.
func (f *file) missing(block string, root *yaml.Node) {
	for key, content := range pairs(root) {
		name := nameOf(key)
		switch {
		case slices.Contains(names(block), name) && looksOurs(block+"."+name, content):
			f.fault(key.Line, fmt.Sprintf("%s stands at the top level; write it inside of %s:%s", name, block, notOurs(block)))
		case isMerge(key) && mergesIn(block, content, map[*yaml.Node]bool{}):
			f.fault(key.Line, fmt.Sprintf("a merge key brings in %s, which is not read; write the block itself%s", block, notOurs(block)))
		case nearly(block, name, content):
			f.fault(key.Line, fmt.Sprintf("unknown block %s; did you mean %s?%s", shown(name, maxShown), block, notOurs(block)))
		}
	}
}

// aWord is how short a name is that is taken for a word of the host's: many words are nearly stall, such as shell or state.
const aWord = 8

// nearly reports whether a name was most likely meant to be that of our block. A long one is proof enough.
func nearly(block, name string, content *yaml.Node) bool {
	return distance(name, block) <= maxTypos && (len(block) > aWord || looksOurs(block, content))
}

// looksOurs reports whether what stands under a name of ours is ours. The name of a setting is proof enough, unless it is a common
// one; that of a block, such as events, is a common word, and one of its settings has to stand in it.
func looksOurs(path string, content *yaml.Node) bool {
	if k, known := keyAt(path); known {
		return !k.common
	}
	if content.Kind == yaml.MappingNode {
		for key, inner := range pairs(content) {
			if name := nameOf(key); slices.Contains(names(path), name) && looksOurs(path+"."+name, inner) {
				return true
			}
		}
	}
	return false
}

func notOurs(block string) string {
	return fmt.Sprintf(" (if the key is not the watchdog's, add an empty block: \"%s:\")", block)
}

// mergesIn reports whether a merge of content would bring the block along. Anchors can be cyclic: each node is seen once.
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
