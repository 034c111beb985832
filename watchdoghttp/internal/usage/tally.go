package usage

import (
	"bytes"
	"strconv"
)

// A tally keeps the counts of one response. A draft is what one event said; it counts when the event's JSON is whole
// and had usage. Later counts replace earlier ones, because every API sends running totals.
type tally struct {
	draft, total counts

	usage   bool   // the draft has it
	bad     uint32 // counts of the draft that are none: bits, by slot; the first is for all without one
	stopped bool   // the draft says why the model stopped, or that the response is over
	choices int    // in the draft
	tool    Tool   // whose requests come
	by      Modality
	size    int64
	round   struct { // one of the calls that the API made
		own     bool // it is the call itself, whose usage is told apart
		in, out int64
	}
	known bool // by is a modality beside text

	seen      bool // usage that can be read
	malformed bool // the last usage could not be
	over      bool // the last usage was that of the end
	empty     bool // it came without a choice
	cut       bool // an answer ended at its maximum
	array     bool // the response is an array
	whole     bool // and has ended
}

// counts are the numbers and names of an event, or of all so far.
type counts struct {
	count [countSlots]int64
	has   uint32 // bits of count, by slot
	by    [4][modalities]int64
	hasBy uint8
	tools [tools]int64
	query int64
	// cleared is what the API cleared from the conversation before it was read, in tokens.
	cleared int64
	// rounds says that the API made other calls of a model besides.
	rounds bool

	model, tier, speed name
}

// A name is a short text.
type name struct {
	text   [longestPart]byte
	length int
}

func (n *name) set(text []byte) {
	n.length = copy(n.text[:], partName(string(text)))
}

func (n *name) String() string { return string(n.text[:n.length]) }

// open begins a container.
func (t *tally) open(n *node, array bool) {
	switch n.slot {
	case slotRoot:
		t.draft, t.usage, t.bad, t.stopped, t.choices = counts{}, false, 0, false, 0
		t.array = t.array || array
	case slotUsage:
		t.clearUsage()
		t.usage = !array
	case slotChoice:
		t.choices++
	case slotTools:
		t.draft.tools = [tools]int64{}
	case slotInputBy, slotCacheReadBy, slotToolInputBy, slotOutputBy:
		if array {
			t.draft.by[n.slot-slotInputBy] = [modalities]int64{}
		}
		t.by, t.size, t.known = 0, 0, false
	case slotEdits:
		t.draft.cleared = 0
	case slotRounds:
		if array {
			t.draft.count[slotRoundInput], t.draft.count[slotRoundOutput], t.draft.rounds = 0, 0, false
		}
		t.round.own, t.round.in, t.round.out = false, 0, 0
	default:
		t.scalar(n, nil, true) // no place for a container
	}
}

// clearUsage forgets the usage that a second one replaces. What stands outside of it stays.
func (t *tally) clearUsage() {
	d := &t.draft
	d.count, d.has, d.by, d.hasBy, d.speed = [countSlots]int64{}, 0, [4][modalities]int64{}, 0, name{}
	t.usage, t.bad, d.rounds = false, 0, false
}

// close ends a container.
func (t *tally) close(n *node, array bool) {
	switch {
	case n.slot == slotRoot && array:
		t.whole = true
	case n.slot == slotRoot:
		t.commit()
	case n.slot >= slotInputBy && n.slot <= slotOutputBy && !array && t.known:
		group := n.slot - slotInputBy
		t.draft.by[group][t.by] = sum(t.draft.by[group][t.by], t.size)
		t.draft.hasBy |= 1 << group
	case n.slot == slotRounds && !array && !t.round.own:
		d := &t.draft
		d.rounds = true
		d.count[slotRoundInput] = sum(d.count[slotRoundInput], t.round.in)
		d.count[slotRoundOutput] = sum(d.count[slotRoundOutput], t.round.out)
		d.has |= 1<<slotRoundInput | 1<<slotRoundOutput
	}
}

// scalar takes a value that is no container. A text that is not told, or is too long, is nil.
func (t *tally) scalar(n *node, value []byte, text bool) {
	switch d := &t.draft; {
	case n.slot > noSlot && n.slot < countSlots:
		t.count(n.slot, value, text)
	case n.text && !text:
		t.name(n.slot, nil)
	case n.text:
		t.name(n.slot, value)
	case n.slot == slotUsage:
		t.clearUsage()
	case n.slot == slotChoice:
		t.choices++
	case n.slot == slotQuery:
		d.query++
	default:
		t.amount(n.slot, value, text)
	}
}

// amount takes a number of what may be there several times.
func (t *tally) amount(s slot, value []byte, text bool) {
	switch d := &t.draft; s {
	case slotModalSize:
		t.size = t.number(noSlot, value, text)
	case slotToolRequests:
		d.tools[t.tool] = t.number(noSlot, value, text)
	case slotEdit:
		d.cleared = sum(d.cleared, t.number(noSlot, value, text))
	case slotRoundIn:
		t.round.in = sum(t.round.in, t.number(noSlot, value, text))
	case slotRoundOut:
		t.round.out = sum(t.round.out, t.number(noSlot, value, text))
	}
}

// name takes a text, or nil for what is none.
func (t *tally) name(s slot, text []byte) {
	switch d := &t.draft; s {
	case slotModel:
		d.model.set(text)
	case slotTier:
		d.tier.set(bytes.ToLower(text))
	case slotSpeed:
		d.speed.set(bytes.ToLower(text))
	case slotRoundType:
		t.round.own = string(text) == "message"
	case slotModality:
		t.by, t.known = modalityNamed(text)
	case slotItemType:
		if tool, is := toolOfItem(text); is {
			d.tools[tool]++
		}
	default:
		t.end(s, text)
	}
}

// end takes a text that says whether the answer is over, and why.
func (t *tally) end(s slot, text []byte) {
	switch s {
	case slotType, slotStatus:
		t.stopped = isOver(text)
	case slotObject:
		t.stopped = t.stopped || string(text) == "response.compaction"
	case slotStop:
		t.stopped = text != nil
		t.cut = t.cut || isCut(text)
	case slotCut:
		t.cut = t.cut || isCut(text)
	}
}

// count takes a count. Null is as if it were not there.
func (t *tally) count(s slot, value []byte, text bool) {
	t.bad &^= 1 << s
	t.draft.has &^= 1 << s
	if !text && string(value) == "null" {
		return
	}
	t.draft.count[s] = t.number(s, value, text)
	t.draft.has |= 1 << s
}

// number reads a count. What is none makes the usage unreadable, unless another takes its place.
func (t *tally) number(s slot, value []byte, text bool) int64 {
	if !text && string(value) == "null" {
		return 0
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if text || err != nil || n < 0 {
		t.bad |= 1 << s
		return 0
	}
	return n
}

// commit ends an event. One without usage is of no account.
func (t *tally) commit() {
	if !t.usage {
		return
	}
	if t.malformed = t.bad != 0; t.malformed {
		return
	}
	t.seen, t.over, t.empty = true, t.stopped, t.choices == 0
	t.total.take(&t.draft)
}

// take takes over what a later event said.
func (c *counts) take(later *counts) {
	for s := range countSlots {
		if later.has&(1<<s) != 0 {
			c.count[s] = later.count[s]
		}
	}
	c.has |= later.has
	for group := range c.by {
		if later.hasBy&(1<<group) != 0 {
			c.by[group] = later.by[group]
		}
	}
	for tool, requests := range later.tools {
		c.tools[tool] = max(c.tools[tool], requests)
	}
	c.query, c.cleared = max(c.query, later.query), max(c.cleared, later.cleared)
	c.rounds = c.rounds || later.rounds
	for _, pair := range [][2]*name{{&c.model, &later.model}, {&c.tier, &later.tier}, {&c.speed, &later.speed}} {
		if pair[1].length > 0 {
			*pair[0] = *pair[1]
		}
	}
}

// isOver reports whether a response of that status, or an event of that type, is the last.
func isOver(value []byte) bool {
	switch string(bytes.TrimPrefix(value, []byte("response."))) {
	case "completed", "incomplete", "failed", "cancelled":
		return true
	}
	return false
}

// isCut reports whether an answer ended for that reason because it had as much as it may.
func isCut(reason []byte) bool {
	switch string(reason) {
	case "max_tokens", "length", "max_output_tokens", "MAX_TOKENS":
		return true
	}
	return false
}

func modalityNamed(value []byte) (m Modality, known bool) {
	for m, known := range modalityNames {
		if bytes.EqualFold(value, []byte(known)) {
			return Modality(m), true
		}
	}
	return 0, false
}

// toolOfItem returns the tool of the API's own that an item of a response's output is a call of.
func toolOfItem(value []byte) (tool Tool, is bool) {
	called, is := bytes.CutSuffix(value, []byte("_call"))
	switch string(called) {
	case "function", "custom_tool", "local_shell", "shell", "apply_patch":
		return 0, false // the host runs these
	}
	return toolNamed(called), is
}
