package usage

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A tally keeps the counts of one response. What an event says is a draft, which counts when its JSON is whole and had
// usage. Later counts replace earlier ones, because every API sends running totals.
type tally struct {
	total counts
	draft draft
	names [3]string // that came last, of the model, the tier and the speed

	api       API
	seen      bool // usage that can be read
	malformed bool // the last usage could not be
	over      bool // the last usage was that of the end
	empty     bool // it came without a choice
	cut       bool // an answer ended at its maximum
	array     bool // the response is an array
	whole     bool // and has ended
}

// counts are the numbers and names of a response so far.
type counts struct {
	count [countSlots]int64
	listed
	tools [tools]int64
	// cleared is what the API cleared from the conversation before it was read, in tokens.
	cleared int64

	model, tier, speed string
}

// listed is what is the sum of a list.
type listed struct {
	by     [details][modalities]int64
	rounds rounds
}

// details is how many lists of tokens by modality Gemini has.
const details = slotOutputDetail - slotPromptDetail + 1

// rounds are calls that the API made besides, in all.
type rounds struct {
	any     bool
	in, out int64
}

// A draft is one event of a response, or the whole, while it is read: what was known before, with what it says. The
// requests of tools, and what was cleared, are its own alone.
type draft struct {
	counts

	usage   bool   // there is one
	bad     uint32 // counts that are none: a bit for each slot
	stopped bool   // it says why the model stopped, or that the response is over
	cut     bool
	choice  bool // it has one
	tool    Tool // whose requests come

	// What its usage has so far of what adds up, and the element that is read.
	own      listed
	requests [tools]int64
	round    struct {
		isCall  bool // the call itself, whose usage is told apart
		in, out int64
	}
	detail struct {
		by     Modality
		known  bool
		tokens int64
	}
}

func (t *tally) open(at slot, array bool) {
	d := &t.draft
	switch {
	case at == slotRoot && array:
		t.array = true
	case at == slotRoot:
		*d = draft{counts: t.total}
		d.tools, d.cleared = [tools]int64{}, 0
	case at == slotUsage && !array:
		d.usage, d.own, d.requests = true, listed{}, [tools]int64{}
	case at == slotRound:
		d.round.isCall, d.round.in, d.round.out = false, 0, 0
	case at >= slotPromptDetail:
		d.detail.known, d.detail.tokens = false, 0
	default:
		t.scalar(at, nil, true)
	}
}

func (t *tally) close(at slot, array bool) {
	d := &t.draft
	switch {
	case at == slotRoot && array:
		t.whole = true
	case at == slotRoot:
		t.commit()
	case at == slotUsage:
		d.atLeast(&d.requests)
	case at == slotRound && !d.round.isCall:
		own := &d.own.rounds
		own.any, own.in, own.out = true, sum(own.in, d.round.in), sum(own.out, d.round.out)
		d.rounds = *own
	case at >= slotPromptDetail && d.detail.known:
		own := &d.own.by[at-slotPromptDetail]
		own[d.detail.by] = sum(own[d.detail.by], d.detail.tokens)
		d.by[at-slotPromptDetail] = *own
	}
}

// commit ends an event. One without usage is of no account.
func (t *tally) commit() {
	d := &t.draft
	if !d.usage {
		return
	}
	if t.malformed = d.bad != 0; t.malformed {
		return
	}
	t.seen, t.over, t.empty, t.cut = true, d.stopped, !d.choice, t.cut || d.cut
	d.atLeast(&t.total.tools)
	d.cleared = max(d.cleared, t.total.cleared)
	t.total = d.counts
}

func (c *counts) atLeast(requests *[tools]int64) {
	for tool, n := range requests {
		c.tools[tool] = max(c.tools[tool], n)
	}
}

// scalar takes a value that is no container, or a container where none belongs: that is as a text that is not known.
func (t *tally) scalar(at slot, value []byte, isText bool) {
	d := &t.draft
	switch {
	case at > noSlot && at < numberSlots:
		t.count(at, value, isText)
	case at < textSlots && isText:
		t.text(at, value)
	case at == slotChoice:
		d.choice = true
	case at == slotQuery:
		d.tools[GoogleSearch]++
	}
}

// count takes a number. Null is as if it were not there.
func (t *tally) count(at slot, value []byte, isText bool) {
	d := &t.draft
	if at < countSlots {
		d.bad &^= 1 << at
		d.count[at] = t.total.count[at]
	}
	switch isNull := !isText && string(value) == "null"; {
	case isNull:
	case at < countSlots:
		d.count[at] = d.number(at, value, isText)
	default:
		d.add(at, d.number(at, value, isText))
	}
}

// number reads a count. What is none makes the usage unreadable.
func (d *draft) number(at slot, value []byte, isText bool) int64 {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if isText || err != nil || n < 0 {
		d.bad |= 1 << at
		return 0
	}
	return n
}

// add adds a number of which an event can have many.
func (d *draft) add(at slot, n int64) {
	switch at {
	case slotToolRequests:
		d.requests[d.tool] = sum(d.requests[d.tool], n)
	case slotCleared:
		d.cleared = sum(d.cleared, n)
	case slotRoundInput:
		d.round.in = sum(d.round.in, n)
	case slotRoundOutput:
		d.round.out = sum(d.round.out, n)
	case slotDetailTokens:
		d.detail.tokens = n
	}
}

func (t *tally) text(at slot, text []byte) {
	d := &t.draft
	switch at {
	case slotModel:
		d.model = cmp.Or(t.name(at, text), d.model)
	case slotTier:
		d.tier = cmp.Or(t.name(at, bytes.ToLower(text)), d.tier)
	case slotSpeed:
		d.speed = cmp.Or(t.name(at, bytes.ToLower(text)), d.speed)
	case slotState:
		d.stopped = d.stopped || isOver(string(text))
	case slotStop:
		d.stopped = len(text) > 0
		fallthrough
	case slotCut:
		d.cut = d.cut || isCut(string(text))
	case slotItemType:
		d.called(string(text))
	case slotRoundType:
		d.round.isCall = string(text) == "message"
	case slotModality:
		d.detail.by, d.detail.known = modalityNamed(string(text))
	}
}

// called counts an item of a response's output if it is a call of one of the API's own tools.
func (d *draft) called(item string) {
	called, is := strings.CutSuffix(item, "_call")
	if is && !slices.Contains(hostTools, called) {
		d.tools[toolNamed(called)]++
	}
}

// hostTools are those that the host runs.
var hostTools = []string{"function", "custom_tool", "local_shell", "shell", "apply_patch"}

// name returns a text that looks like a name. Most events have the same as the one before.
func (t *tally) name(at slot, text []byte) string {
	last := &t.names[at-slotModel]
	if string(text) != *last {
		*last = partName(string(text))
	}
	return *last
}

// isOver reports whether a response of that status, or an event or object of that type, is the last.
func isOver(state string) bool {
	switch strings.TrimPrefix(state, "response.") {
	case "completed", "incomplete", "failed", "cancelled":
		return true
	}
	return state == "response.compaction"
}

// isCut reports whether an answer ended for that reason because it had as much as it may.
func isCut(reason string) bool {
	switch reason {
	case "max_tokens", "length", "max_output_tokens", "MAX_TOKENS":
		return true
	}
	return false
}

// usage turns the counts of the API's wire format into classes that add up.
func (t *tally) usage() Usage {
	c := &t.total
	u := Usage{
		Input: c.count[slotInput], Output: c.count[slotOutput], Reasoning: c.count[slotReasoning],
		CacheRead: c.count[slotCacheRead], CacheWrite: c.count[slotCacheWrite], Tools: c.tools, Tier: c.tier,
	}
	switch t.api {
	case Anthropic:
		c.anthropic(&u)
	case Gemini:
		c.gemini(&u)
	default:
		c.openAI(&u)
	}
	return u
}

// anthropic: the classes of input add up. What was written to a cache without a lifetime stays without one. Calls that
// the API made besides, such as one to compact the conversation, come on top.
func (c *counts) anthropic(u *Usage) {
	u.CacheWrite5m, u.CacheWrite1h = c.count[slotCacheWrite5m], c.count[slotCacheWrite1h]
	u.CacheWrite = less(u.CacheWrite, u.CacheWrite5m, u.CacheWrite1h)
	u.Input, u.Output = sum(u.Input, c.rounds.in), sum(u.Output, c.rounds.out)
	if c.speed == "fast" {
		u.Tier = "fast"
	}
}

// openAI: what is cached is inside the prompt, and reasoning inside the output. Compatible servers leave reasoning out
// of it, and have it in the total only.
func (c *counts) openAI(u *Usage) {
	u.Input = less(u.Input, u.CacheRead, u.CacheWrite)
	u.InputBy[Audio], u.InputBy[Image] = c.count[slotInputAudio], c.count[slotInputImage]
	u.OutputBy[Audio], u.OutputBy[Image] = c.count[slotOutputAudio], c.count[slotOutputImage]
	c.addUnnamed(u)
}

// gemini: what is cached is inside the prompt; thoughts, and what tools gave the model, come on top.
func (c *counts) gemini(u *Usage) {
	u.Input = sum(less(u.Input, u.CacheRead), c.count[slotToolInput])
	u.Output, u.Reasoning = sum(u.Output, c.count[slotThoughts]), c.count[slotThoughts]
	prompt, cached, tool := c.by[0], c.by[1], c.by[2]
	u.OutputBy, u.CacheReadBy = c.by[3], cached
	for m := range modalities {
		u.InputBy[m] = sum(less(prompt[m], cached[m]), tool[m])
	}
	c.addUnnamed(u)
}

// addUnnamed adds what the API's total has beyond its parts to the output, the dearer class.
func (c *counts) addUnnamed(u *Usage) {
	u.Output = sum(u.Output, less(c.count[slotTotal], u.TokensIn(), u.Output))
}
