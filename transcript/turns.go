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

// A Turn is what one message of a model called, with what came back, or what a person said. It keeps nothing of the
// Reader's memory.
type Turn struct {
	// Steps are the calls, or one step of class [loop.Person]. Their Class is empty otherwise.
	Steps []loop.Step
	// Agent is the ID of the sub-agent whose turn it is. Empty is the agent of the session itself.
	Agent string
	// Conversation is the number of the conversation, from 1. Only a file of chat messages has more than one. One that
	// has begun ends all before it.
	Conversation int
	// First is the number of the first of the calls among those of that agent in that conversation, from 1. A person's
	// turn has the number of the call after it.
	First int
	// Line is the number of the line on which the turn begins.
	Line int
}

// A Coverage counts what a [Reader] has read so far.
type Coverage struct {
	Format Format
	// Lines counts lines, or the elements of the list that a document has instead. Unknown are those that are not known,
	// or broken, or have the result of no call.
	Lines, Unknown int
	// Calls counts calls with a result, Unanswered those without. Persons counts the turns of persons.
	Calls, Unanswered, Persons int
	// Timed says whether there were times. Without them no Gap of a step is known, and the rules of gaps do nothing.
	Timed bool
	// Cut says that the last line or the document is incomplete, because it is being written or was cut off.
	Cut bool
}

// A turns makes turns of the calls, the results and the persons of a conversation.
type turns struct {
	ready        []Turn
	counts       Coverage
	conversation int
	elements     int // of this conversation
	line         int // of the value that is being read
	threads      map[string]*thread
	text         textAgent
	side         chain
}

// maxThreads is how many agents of one conversation are known at a time. It bounds the memory: whose last line is the
// oldest is forgotten, but for the agent of the session itself, which may wait for all others.
const maxThreads = 1000

// A thread is the turns of one agent. A turn is complete when the next one begins.
type thread struct {
	message  string // the ID of the message that calls
	calls    []call
	line     int       // on which the turn begins
	used     int       // the last line
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
func (s *turns) thread(agent string) *thread {
	t := s.threads[agent]
	if t == nil {
		if len(s.threads) >= maxThreads {
			s.forgetOldest()
		}
		t = &thread{}
		s.threads[agent] = t
	}
	t.used = s.line
	return t
}

// forgetOldest ends the turn of the sub-agent whose last line is the oldest, and forgets it.
func (s *turns) forgetOldest() {
	oldest := ""
	for agent, t := range s.threads {
		if agent != "" && (oldest == "" || cmp.Or(t.used-s.threads[oldest].used, cmp.Compare(agent, oldest)) < 0) {
			oldest = agent
		}
	}
	s.complete(oldest, s.threads[oldest])
	delete(s.threads, oldest)
}

// call adds a call. It begins a turn unless it is of the message that called last, or, if messages have no ID, nothing
// has come back since.
func (s *turns) call(agent, message string, c call) {
	t := s.thread(agent)
	if message != t.message || message == "" && t.answered > 0 {
		s.complete(agent, t)
	}
	if len(t.calls) == 0 {
		t.message, t.line = message, s.line
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
func (s *turns) result(agent string, res result) bool {
	t := s.thread(agent)
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
	if s.counts.Timed = true; !t.last.IsZero() {
		c.step.Gap = max(res.at.Sub(t.last), 0)
	}
	if res.at.After(t.newest) {
		t.newest = res.at
	}
	return true
}

// says adds what a person said. Several messages in a row are one turn.
func (s *turns) says(agent string, at time.Time) {
	t := s.thread(agent)
	s.complete(agent, t)
	if !at.IsZero() {
		t.last = at
	}
	if t.person {
		return
	}
	t.person = true
	s.counts.Persons++
	s.emit(agent, t, s.line, loop.Step{Class: loop.Person})
}

func (s *turns) complete(agent string, t *thread) {
	s.counts.Calls += t.answered
	s.counts.Unanswered += len(t.calls) - t.answered
	if t.answered > 0 {
		steps := make([]loop.Step, 0, t.answered)
		for i := range t.calls {
			if t.calls[i].answered {
				steps = append(steps, t.calls[i].step)
			}
		}
		s.emit(agent, t, t.line, steps...)
		t.number += t.answered
		t.person = false
	}
	if !t.newest.IsZero() {
		t.last = t.newest // also if a clock was set back
	}
	t.message, t.calls, t.answered, t.newest = "", nil, 0, time.Time{}
}

func (s *turns) emit(agent string, t *thread, line int, steps ...loop.Step) {
	s.ready = append(s.ready, Turn{
		Steps: steps, Agent: agent, Conversation: s.conversation, First: t.number + 1, Line: line,
	})
}

// endConversation ends and forgets the turns of all threads, in the order of the file. It begins another conversation
// if there was anything in this one.
func (s *turns) endConversation() {
	agents := slices.SortedFunc(maps.Keys(s.threads), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.threads[a].line, s.threads[b].line), cmp.Compare(a, b))
	})
	for _, agent := range agents {
		s.complete(agent, s.threads[agent])
	}
	clear(s.threads)
	s.text, s.side = textAgent{}, chain{}
	if s.elements > 0 {
		s.conversation++
	}
	s.elements = 0
}
