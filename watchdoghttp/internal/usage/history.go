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
	calls []*answered
	size  int
	// compacted is the most that a call to compact a conversation was billed.
	compacted int64
}

// An answered is a call of which it is known what it took in.
type answered struct {
	key   digest
	parts []seen // the turns of the conversation, and then what stands before it
	turns int
	input int64
	// output is what its answer was billed.
	output int64
	// left is a call that another one went on from.
	left bool
}

// A seen is a part of a call, with its most if that was not only its bytes: 0 is nothing told.
type seen struct {
	digest digest
	most   uint32
}

const (
	mostHistory  = 256 << 10
	sizeOfSeen   = 20
	sizeOfAnswer = 96
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
	m.compacted(h.compacted)
	var alike []*answered
	for _, a := range h.calls {
		if a.key == c.key {
			alike = append(alike, a)
			m.learn(a)
		}
	}
	least := int64(-1)
	for _, a := range alike {
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

// compacted lowers the costs of what earlier calls compacted to the most that one of them was billed, unless this
// call's conversation can have been compacted by the way.
func (m *match) compacted(most int64) {
	for i, p := range m.call.parts {
		if p.hides && most > 0 && !m.call.managed {
			m.lower(i, most)
		}
	}
}

// lower lowers the cost of an opaque part to what it was billed, but not below its bytes.
func (m *match) lower(part int, billed int64) {
	m.costs[part] = min(m.costs[part], max(m.call.parts[part].most, billed))
}

// learn lowers the costs of opaque parts to what another call knew of them, or to what its answer was billed if that is
// where they come from.
func (m *match) learn(a *answered) {
	for _, p := range a.parts {
		if i, there := m.first[p.digest]; p.most > 0 && there {
			m.lower(i, int64(p.most))
		}
	}
	if a.begins(m.call) {
		for _, p := range m.answerTo(a) {
			if p.opaque {
				m.lower(m.first[p.digest], a.output)
			}
		}
	}
}

// answerTo returns the parts with which the model answered the other call: those that follow.
func (m *match) answerTo(a *answered) []part {
	turns := m.call.parts[a.turns:m.call.turns]
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
	if goesOn {
		most = sum(most, m.unsaid(a))
	}
	return most
}

// repeats reports whether a part that another call had, too, can have been left out there. APIs leave out the reasoning
// before the last message of the user's own, at least for some models, so that what comes after that message is not
// known from a call whose conversation was another one. What comes before it was input there if it is now.
func (m *match) repeats(part int) bool {
	c := m.call
	return c.parts[part].opaque && m.last[part] >= c.own && part < c.turns
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

// Learn notes what a call took in by its usage. A call teaches nothing whose usage has no input or not all of it, or
// that the API made several calls of.
func (h *History) Learn(c *Call, result Result) {
	input, known := c.taught(result)
	if h == nil || !known {
		return
	}
	a := &answered{key: c.key, turns: c.turns, input: input, output: result.Usage.TokensOut()}
	if result.State != Final {
		a.output = max(a.output, c.longest)
	}
	a.parts = make([]seen, len(c.parts))
	for i, p := range c.parts {
		a.parts[i].digest = p.digest
		if p.opaque && i < len(c.costs) {
			a.parts[i].most = uint32(min(c.costs[i], 1<<32-1))
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.Compacts {
		h.compacted = max(h.compacted, a.output)
	}
	h.add(a, c)
}

// add adds a call, unless one of the same parts is there. That one can have been answered otherwise.
func (h *History) add(a *answered, c *Call) {
	if a.size() > mostHistory {
		return
	}
	for _, other := range h.calls {
		if other.key != a.key || !other.begins(c) {
			continue
		}
		if slices.EqualFunc(other.parts, a.parts, func(p, q seen) bool { return p.digest == q.digest }) {
			other.input, other.output = max(other.input, a.input), max(other.output, a.output)
			return
		}
		other.left = true
	}
	h.calls = append(h.calls, a)
	for h.size += a.size(); h.size > mostHistory; {
		oldest := max(0, slices.IndexFunc(h.calls, func(other *answered) bool { return other.left }))
		h.size -= h.calls[oldest].size()
		h.calls = slices.Delete(h.calls, oldest, oldest+1)
	}
}
