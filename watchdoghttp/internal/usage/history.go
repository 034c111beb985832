package usage

import (
	"slices"
	"sync"
)

// A History has what the calls of a run have taught: of which parts each was, and how many tokens all of them were. The
// zero value has nothing. It is safe for concurrent use, and keeps digests alone, in 256 KiB at most; what it forgets
// first are calls that another one went on from, the oldest first.
//
// A call with the same key and parts that an earlier one had, too, takes in what that one did, because what the API
// adds depends on the key, and the tokens of a part on the part. So a call takes in no more than an earlier one and
// what its own parts have that were not among those of the earlier one, whatever that one had besides. Parts that the
// API leaves out are an exception, see match.repeats.
type History struct {
	mu    sync.Mutex
	calls []*answered // in the order of their last answers
	size  int
	// compacted is the most that a call to compact a conversation was billed.
	compacted int64
}

// An answered is a call that was answered.
type answered struct {
	key   digest
	parts []seen // the turns of the conversation, and then what stands before it
	turns int
	input int64 // or unknown
	// output is what its answer was billed, or the most that it can have been; longest is that of the longest answer to
	// it or to a call after it.
	output, longest int64
	// asks is the result of a tool that it ends with, zero if it does not.
	asks digest
	// left is a call that another one went on from.
	left bool
}

// A seen is a part of a call, with its most if that was not only its bytes: 0 is nothing told.
type seen struct {
	digest digest
	most   uint32
}

const (
	unknown      = -1
	mostHistory  = 256 << 10
	sizeOfSeen   = 20
	sizeOfAnswer = 112
)

func (a *answered) size() int { return sizeOfAnswer + sizeOfSeen*cap(a.parts) }

// begins reports whether the conversation of a call goes on from that of the other.
func (a *answered) begins(c *Call) bool {
	if a.turns > c.turns {
		return false
	}
	for i, p := range a.parts[:a.turns] {
		if p.digest != c.parts[i].digest {
			return false
		}
	}
	return true
}

// least returns the least that the call can take in by what is known, -1 if nothing is. It lowers the costs of opaque
// parts to what is known of them.
func (h *History) least(c *Call, costs []int64) int64 {
	if h == nil {
		return -1
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m := newMatch(c, costs)
	m.learn(h)
	least := int64(-1)
	for _, a := range h.calls {
		if a.key != c.key || a.input == unknown {
			continue
		}
		if most := sum(a.input, m.beyond(a)); least < 0 || most < least {
			least = most
		}
	}
	return least
}

// A match compares one call with others.
type match struct {
	call  *Call
	costs []int64
	first map[digest]int // of the parts that are equal
	last  []int          // the last one of them, at the first
	times []int          // and how many there are
	left  []int          // that are not covered yet
}

func newMatch(c *Call, costs []int64) *match {
	n := len(c.parts)
	numbers := make([]int, 3*n)
	m := &match{
		call: c, costs: costs, first: make(map[digest]int, n),
		last: numbers[:n], times: numbers[n : 2*n], left: numbers[2*n:],
	}
	for i, p := range c.parts {
		if _, again := m.first[p.digest]; !again {
			m.first[p.digest] = i
		}
		first := m.first[p.digest]
		m.last[first] = i
		m.times[first]++
	}
	return m
}

// learn lowers the costs of opaque parts to what is known of them: what another call knew, or the most that the answer
// was billed that they come from. What is new after a conversation, or after the result that it ended with, is the
// answer to any call of it, whatever its key, or to a later call: a client can leave out what was between them.
func (m *match) learn(h *History) {
	c := m.call
	billed, known := make([]int64, len(c.parts)), make([]bool, len(c.parts))
	for _, a := range h.calls {
		if a.key == c.key {
			m.recall(a)
		}
		for _, p := range m.answerTo(a) {
			i := m.first[p.digest]
			billed[i], known[i] = max(billed[i], a.longest), known[i] || a.key == c.key
		}
	}
	for i, p := range c.parts {
		switch {
		case p.hides && h.compacted > 0 && !c.managed: // else it can have been compacted by the way
			m.lower(i, h.compacted)
		case p.opaque && known[i]:
			m.lower(i, billed[i])
		}
	}
}

// recall lowers the costs of opaque parts to what another call knew of them.
func (m *match) recall(a *answered) {
	for _, p := range a.parts {
		if i, there := m.first[p.digest]; p.most > 0 && there {
			m.lower(i, int64(p.most))
		}
	}
}

// lower lowers the cost of an opaque part to what it was billed, but not below its bytes.
func (m *match) lower(part int, billed int64) {
	m.costs[part] = min(m.costs[part], max(m.call.parts[part].most, billed))
}

// answerTo returns the parts with which the model answered the other call: those that follow the same conversation, or
// else the same result of a tool, where a client has changed what is before that.
func (m *match) answerTo(a *answered) []part {
	at := a.turns
	if !a.begins(m.call) {
		result, there := m.first[a.asks]
		if !there {
			return nil
		}
		at = m.last[result] + 1
		for at < m.call.turns && !m.call.parts[at].made {
			at++
		}
	}
	turns := m.call.parts[min(at, m.call.turns):m.call.turns]
	if end := slices.IndexFunc(turns, func(p part) bool { return !p.made }); end >= 0 {
		turns = turns[:end]
	}
	return turns
}

// beyond returns what the call's parts can have that are not among those of the other.
func (m *match) beyond(a *answered) (most int64) {
	copy(m.left, m.times)
	goesOn := a.begins(m.call)
	for _, p := range a.parts {
		i, there := m.first[p.digest]
		if !there || m.left[i] == 0 {
			continue
		}
		most = sum(most, m.call.parts[i].varying)
		if goesOn || !m.repeats(i) {
			m.left[i]--
		}
	}
	for i, times := range m.left {
		most = sum(most, product(int64(times), m.costs[i]))
	}
	return sum(most, m.unsaid(a))
}

// repeats reports whether a part that another call had, too, can have been left out there. APIs leave out the reasoning
// before the last message of the user's own, at least for some models, so that what comes after that message is not
// known from a call whose conversation was another one. What comes before it was input there if it is now.
func (m *match) repeats(part int) bool {
	c := m.call
	return c.parts[part].left && m.last[part] >= c.own && part < c.turns
}

// unsaid returns how much more the answer to the other call was billed than the parts can have that the client made of
// it. The model can have said more, and the API can add it.
func (m *match) unsaid(a *answered) int64 {
	answer, said := m.answerTo(a), int64(0)
	if len(answer) == 0 {
		return 0
	}
	for _, p := range answer {
		said = sum(said, m.costs[m.first[p.digest]])
	}
	return less(a.output, said)
}

// Learn notes what a call took in by its usage. A call whose usage has no input or not all of it, or that the API made
// several calls of, teaches only that it may have been answered with the most.
func (h *History) Learn(c *Call, result Result) {
	if h == nil {
		return
	}
	a := c.answered(result)
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.Compacts {
		h.compacted = max(h.compacted, a.output)
	}
	if same := h.without(a, c); same != nil {
		a.input, a.output, a.longest = max(a.input, same.input), max(a.output, same.output), max(a.output, same.longest)
	}
	for _, earlier := range h.calls {
		earlier.longest = max(earlier.longest, a.output)
	}
	if a.size() <= mostHistory {
		h.add(a)
	}
}

func (c *Call) answered(result Result) *answered {
	a := &answered{key: c.key, turns: c.turns, input: unknown, output: result.Usage.TokensOut()}
	input, known := c.taught(result)
	if known {
		a.input = input
	}
	if !known || result.State != Final {
		a.output = max(a.output, c.longest)
	}
	a.longest = a.output
	a.parts = make([]seen, len(c.parts))
	for i, p := range c.parts {
		if p.result && i >= c.turns-2 && i < c.turns {
			a.asks = p.digest
		}
		a.parts[i].digest = p.digest
		if p.opaque && i < len(c.costs) {
			a.parts[i].most = uint32(min(c.costs[i], 1<<32-1))
		}
	}
	return a
}

// without takes out a call with the same key and parts, and returns it. It marks those that the call goes on from.
func (h *History) without(a *answered, c *Call) (same *answered) {
	for i, other := range h.calls {
		switch {
		case other.key != a.key || !other.begins(c):
		case slices.EqualFunc(other.parts, a.parts, func(p, q seen) bool { return p.digest == q.digest }):
			h.size -= other.size()
			h.calls = slices.Delete(h.calls, i, i+1)
			return other
		default:
			other.left = true
		}
	}
	return nil
}

// add adds a call, the last that was answered.
func (h *History) add(a *answered) {
	h.calls = append(h.calls, a)
	for h.size += a.size(); h.size > mostHistory; {
		oldest := max(0, slices.IndexFunc(h.calls, func(other *answered) bool { return other.left }))
		h.size -= h.calls[oldest].size()
		h.calls = slices.Delete(h.calls, oldest, oldest+1)
	}
}
