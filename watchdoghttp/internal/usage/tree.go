package usage

import "strings"

// A node is a place in the JSON of a response.
type node struct {
	keys  map[string]*node // of an object
	other *node            // of an object: each key that is not in keys
	elem  *node            // of an array: each element

	slot slot
	text bool // a string here is told
}

// A slot says what a place is for.
type slot uint8

// The counts come first, then texts, then the rest.
const (
	noSlot slot = iota
	slotInput
	slotCacheWrite
	slotCacheWrite5m
	slotCacheWrite1h
	slotCacheRead
	slotToolInput
	slotOutput
	slotThoughts  // output that is not in slotOutput
	slotReasoning // output that is in slotOutput
	slotTotal
	slotInputImage
	slotInputAudio
	slotOutputImage
	slotOutputAudio
	// Of calls that the API made besides, each the sum of all.
	slotRoundInput
	slotRoundOutput
	countSlots

	slotModel
	slotTier
	slotSpeed
	slotType
	slotStatus
	slotObject
	slotStop
	slotCut // why an answer ended, where that does not say that all is over
	slotModality
	slotRoundType

	slotRoot      // a whole response or event
	slotUsage     // the object that has the counts
	slotChoice    // one of the choices
	slotItemType  // the type of an item of the output
	slotQuery     // one of the queries of a search
	slotModalSize // the tokens of one modality
	slotInputBy   // the tokens by modality: a list, and its elements
	slotCacheReadBy
	slotToolInputBy
	slotOutputBy
	slotTools // what has the requests of tools
	slotToolRequests
	slotEdits    // what was cleared: a list
	slotEdit     // and how much, in one place of it
	slotRounds   // the calls that the API made: a list, and its elements
	slotRoundIn  // what one took in, in one class
	slotRoundOut // and what it gave out
)

// textSlots are those of strings that are told.
var textSlots = map[slot]bool{
	slotModel: true, slotTier: true, slotSpeed: true, slotType: true, slotStatus: true, slotStop: true, slotCut: true,
	slotModality: true, slotItemType: true, slotObject: true, slotRoundType: true,
}

// tree makes the tree of the paths. In a path, brackets are each element of an array, and a star is each other key.
func tree(paths map[string]slot) *node {
	root := &node{slot: slotRoot}
	for path, slot := range paths {
		at := root
		for step := range strings.SplitSeq(strings.ReplaceAll(path, "[]", ".[]"), ".") {
			at = at.step(step)
		}
		at.slot, at.text = slot, textSlots[slot]
	}
	return root
}

// step returns the place one step further, and makes it if there is none.
func (n *node) step(step string) *node {
	next := &n.elem
	switch step {
	case "[]":
	case "*":
		next = &n.other
	default:
		if n.keys == nil {
			n.keys = map[string]*node{}
		}
		if n.keys[step] == nil {
			n.keys[step] = new(node)
		}
		return n.keys[step]
	}
	if *next == nil {
		*next = new(node)
	}
	return *next
}
