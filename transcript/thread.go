package transcript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/loop"
)

// maxThreads is how many agents of one conversation may have a turn that is not complete. It bounds the memory.
const maxThreads = 1000

// A thread is the turns of one agent. A turn is complete when the next one begins.
type thread struct {
	message  string // the ID of the message that calls
	calls    []call
	line     int       // on which the turn begins
	answered int       // how many of the calls are
	number   int       // of calls before this turn
	newest   time.Time // of the results of this turn
	last     time.Time // of the turn before it
	person   bool      // the last turn was a person's
}

// A call waits for its result.
type call struct {
	id       string
	step     loop.Step
	answered bool
}

// thread returns the thread of an agent.
func (r *Reader) thread(agent string) *thread {
	t := r.threads[agent]
	if t == nil {
		if len(r.threads) >= maxThreads {
			r.endConversation()
		}
		t = &thread{}
		r.threads[agent] = t
	}
	return t
}

// call adds a call. It begins a turn unless it is of the message that called last, or, if messages have no ID, nothing
// has come back since.
func (r *Reader) call(agent, message string, c call) {
	t := r.thread(agent)
	if message != t.message || message == "" && t.answered > 0 {
		r.complete(agent, t)
	}
	if len(t.calls) == 0 {
		t.message, t.line = message, r.line
	}
	if c.id != "" && slices.ContainsFunc(t.calls, func(other call) bool { return other.id == c.id }) {
		return // it was written twice
	}
	var compact bytes.Buffer
	if json.Compact(&compact, c.step.Input) == nil {
		c.step.Input = compact.Bytes()
	}
	t.calls = append(t.calls, c)
}

// A result is what came back from a call.
type result struct {
	id              string
	outcome         []byte
	failed, refused bool
	at              time.Time
}

// result finds the call by its ID and reports whether there is one. A result without an ID is that of the first call
// without one.
func (r *Reader) result(agent string, res result) bool {
	t := r.thread(agent)
	i := slices.IndexFunc(t.calls, func(c call) bool { return c.id == res.id && !c.answered })
	if i < 0 {
		return false
	}
	c := &t.calls[i]
	c.answered = true
	t.answered++
	c.step.Outcome, c.step.Failed, c.step.Refused = res.outcome, res.failed, res.refused
	if res.at.IsZero() {
		return true
	}
	if r.counts.Timed = true; !t.last.IsZero() {
		c.step.Gap = max(res.at.Sub(t.last), 0)
	}
	if res.at.After(t.newest) {
		t.newest = res.at
	}
	return true
}

// says adds what a person said. Several messages in a row are one turn.
func (r *Reader) says(agent string, at time.Time) {
	t := r.thread(agent)
	r.complete(agent, t)
	if !at.IsZero() {
		t.last = at
	}
	if t.person {
		return
	}
	t.person = true
	r.counts.Persons++
	r.emit(agent, t, r.line, loop.Step{Class: loop.Person})
}

// complete ends the turn of a thread.
func (r *Reader) complete(agent string, t *thread) {
	r.counts.Calls += t.answered
	r.counts.Unanswered += len(t.calls) - t.answered
	if t.answered > 0 {
		steps := make([]loop.Step, 0, t.answered)
		for i := range t.calls {
			if t.calls[i].answered {
				steps = append(steps, t.calls[i].step)
			}
		}
		r.emit(agent, t, t.line, steps...)
		t.number += t.answered
		t.person = false
	}
	if t.newest.After(t.last) {
		t.last = t.newest
	}
	t.message, t.calls, t.answered = "", nil, 0
}

func (r *Reader) emit(agent string, t *thread, line int, steps ...loop.Step) {
	r.ready = append(r.ready, Turn{
		Steps: steps, Agent: agent, Conversation: r.conversation, First: t.number + 1, Line: line,
	})
}

// endConversation completes the turns of all threads, and forgets them.
func (r *Reader) endConversation() {
	agents := slices.SortedFunc(maps.Keys(r.threads), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.threads[a].line, r.threads[b].line), cmp.Compare(a, b))
	})
	for _, agent := range agents {
		r.complete(agent, r.threads[agent])
	}
	clear(r.threads)
	if r.elements > 0 {
		r.conversation++
	}
	r.elements, r.chain, r.text = 0, chain{}, textAgent{}
}
