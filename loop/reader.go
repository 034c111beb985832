package loop

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/alike"
)

// A call is what is known of a step that counts.
type call struct {
	name      string // of the tool
	pair      uint64 // digest of tool, input, outcome and refusal
	rough     uint64 // the same, of a failure without what has digits
	input     uint64 // digest of tool and input
	tool      uint64 // digest of the tool
	aim       uint64 // digest of the tool and the input without where it reads, if it says that
	gets      uint64 // digest of what is futile if calls of its kind get it again and again, 0 if nothing is
	useful    bool   // it ends the futile series of those that get something else
	phrased   bool   // it only counts as futile if its words are those of others
	guessed   bool   // nobody said what its tool does, and its input may be one of a list that has an end
	words     words  // of its input
	large     bool   // it is a change with so long an input that it counts as made again whatever comes back
	succeeded bool   // it is a change, and there is no sign of a failure
	made      bool   // it may be a change, and its input is new
	again     bool   // it got the same before, and may be a poll once time has passed
	slow      bool   // enough time has passed since the last step
	stands    bool   // it may be a poll, or looks at how things stand, so that it counts since anything is new
	soft      bool   // it may also be thought about for long, so that it ends nothing
	failed    bool
	waits     bool          // it is a wait that counts, see [Config].Waits
	need      time.Duration // how long waits take after which enough has
}

// byPair sorts the calls of a turn. Package slices would link a sort for this type alone.
type byPair []call

func (c *byPair) Len() int           { return len(*c) }
func (c *byPair) Less(i, j int) bool { return (*c)[i].pair < (*c)[j].pair }
func (c *byPair) Swap(i, j int)      { (*c)[i], (*c)[j] = (*c)[j], (*c)[i] }

// kind is what the calls of a futile series have in common.
func (c *call) kind() uint64 {
	if c.aim != 0 {
		return c.aim
	}
	return c.tool
}

// read returns what is known of a step, and whether it counts.
func (d *Detector) read(s *Step) (call, bool) {
	if !s.counts(s.Class) && !d.judgesWait(s, s.Class) {
		d.history.waits(s, s.Class)
		return call{}, false
	}
	input, outcome := d.digests(s)
	hint, sign := &d.hints, &d.signs
	class := d.guess(s, hint)
	if !s.counts(class) {
		d.history.waits(s, class)
		pair := alike.Mix(input, outcome)
		return call{name: s.Tool, pair: pair, rough: pair, input: input, waits: true}, d.judgesWait(s, class)
	}
	c := call{name: s.Tool, input: input, tool: max(alike.Sum(0, []byte(s.Tool)), 1), words: hint.words, gets: outcome}
	c.pair = alike.Mix(input, outcome)
	c.rough = c.pair
	if fails := sign.failed && !hint.computes; fails {
		all, first := d.reader.Failure()
		c.rough, c.gets = alike.Mix(input, all), max(first, nothing+1)
	}
	hint.search = class == Look && (hint.search || named(s.Tool, searching))
	c.failed = sign.failed
	c.large = class == Change && len(s.Input) >= redoLength
	c.succeeded = class == Change && !sign.failed
	d.repeats(s, &c, class)
	d.softens(s, &c, class)
	d.futile(s, &c, class)
	c.guessed = !s.Class.declared() && d.mayList(s, &c)
	return c, true
}

// judgesWait reports whether the step is a wait, and waits count.
func (d *Detector) judgesWait(s *Step, class Class) bool {
	return class == Wait && !s.Retry && d.config.Waits != Go
}

// repeats says whether a call got the same before, and whether it is a poll then.
func (d *Detector) repeats(s *Step, c *call, class Class) {
	appends := c.succeeded && !c.large && (d.hints.appends || named(s.Tool, []string{"append"}))
	again := class != Change || d.signs.busy || appends || d.hints.script
	c.again = again && !s.Refused && !d.signs.noTool && d.history.had(c)
	c.slow, c.stands, c.need = d.passed(s, class, &d.signs)
	c.slow = c.slow || appends
}

// had reports whether a call got the same before, or failed in the same way a few turns ago.
func (h *history) had(c *call) bool {
	return h.pairs.has(c.pair) || slices.Contains(h.tail.last[:], c.rough)
}

// softens says whether a call ends nothing, because what it gets may stay the same for long.
func (d *Detector) softens(s *Step, c *call, class Class) {
	c.stands = c.stands && c.again || d.shows(s, class) && !d.signs.failed
	c.made = class == "" && !d.signs.failed && !slices.Contains(d.history.pairs.input[:], c.input)
	c.soft = d.config.Mode != Strict && (c.stands || c.again && !s.Class.declared() && s.Gap >= thinking)
}

func (d *Detector) shows(s *Step, class Class) bool {
	looks := class == Look && (d.hints.state || named(s.Tool, stating))
	return (looks || class == "" && d.hints.state)
}

// futile says what the call has in common with others that get nothing better.
func (d *Detector) futile(s *Step, c *call, class Class) {
	c.useful = true
	gets, size, sign := c.gets, len(s.Outcome), &d.signs
	c.gets = 0
	fixed, placed := d.reader.Place()
	switch {
	case s.Refused || sign.noTool || class == Change && sign.failed:
		c.gets, c.useful = gets, false
	case d.hints.search:
		c.gets, c.useful = looked(gets, size, sign)
		c.phrased = true
	case class == Look && placed:
		c.gets, c.useful = looked(gets, size, sign)
		c.aim = max(alike.Mix(c.tool, fixed), 1)
	case class != Change && sign.failed:
		c.gets, c.useful, c.phrased = gets, sign.content, true
	}
}

// mayList reports whether the input may be one of a list that is gone through: not where only the place differs, or
// where the call could not be made.
func (d *Detector) mayList(s *Step, c *call) bool { return c.aim == 0 && !s.Refused && !d.signs.noTool }

// looked says what a search or a read has in common with others: that there is nothing, or the same text.
func looked(gets uint64, size int, sign *signs) (_ uint64, useful bool) {
	switch {
	case sign.failed || sign.empty():
		return nothing, false
	case size < telling:
		return 0, true
	}
	return gets, true
}

// passed says whether a call that got the same is taken for a poll, as what it looks at had time to change, whether it
// may be one, and after how long waits it is one: any, if need is not positive.
func (d *Detector) passed(s *Step, class Class, sign *signs) (slow, may bool, need time.Duration) {
	guessed := !s.Class.declared()
	switch {
	case guessed && sign.underWay, sign.busy && !sign.computes:
		return true, false, 0
	case sign.underWay, guessed && sign.empty() && !sign.failed && named(s.Tool, receiving):
		return s.Gap >= thinking, false, thinking - s.Gap
	case class == Look || sign.stays():
		return s.Gap >= lookPoll, false, waitedPoll
	case sign.failed, sign.awaited, sign.computes, d.config.Waits == End: // a test may be flaky
		return s.Gap >= thinking, false, thinking - s.Gap
	}
	return s.Gap >= unknownPoll, s.Gap >= thinking, thinking - s.Gap
}

// stays reports whether the outcome is a failure that does not pass by itself.
func (s *signs) stays() bool { return s.failed && !s.awaited || s.broken && (s.failed || !s.exited) }

// digests returns the digests of the input, with the tool, and of the outcome of a step.
func (d *Detector) digests(s *Step) (input, outcome uint64) {
	d.hints = hints{}
	input = max(alike.Mix(alike.Sum(0, []byte(s.Tool)), d.reader.Input(s.Input, &d.hints)), 1)
	d.signs = signs{computes: d.hints.computes}
	compared := s.Outcome
	if d.config.Normalize != nil {
		compared = d.config.Normalize(s.Tool, compared)
	}
	outcome = d.reader.Outcome(compared, &d.signs)
	d.signs.failed = d.signs.failed || s.Failed || s.Refused
	if s.Refused {
		outcome = alike.Mix(outcome, 'r')
	}
	return input, max(outcome, nothing+1)
}

// turnDigest is the digest of a turn, with the calls that may be polls or without. It reports whether there are any.
func turnDigest(calls []call, soft bool) (sum uint64, counts bool) {
	for i := range calls {
		if c := &calls[i]; soft || !c.soft {
			sum, counts = sum+c.rough, true
		}
	}
	return sum, counts
}

// A waiting is the waits since the last turn that counts.
type waiting struct {
	time  uint64 // nanoseconds, 0 if there was none, and unknown if the Gap of one is
	first uint64 // the first pair that was taken for a poll since the last wait, 0 if none was
}

// waits notes a step of class Wait. Waits add up until something is looked at.
func (h *history) waits(s *Step, class Class) {
	if class != Wait || s.Retry {
		return
	}
	w := &h.waiting
	if w.first != 0 {
		*w = waiting{}
	}
	if s.Gap <= 0 || w.time == unknown {
		w.time = unknown
		return
	}
	w.time += uint64(s.Gap)
}

// polls reports whether a call is a poll: it waits, or it got the same before and time or waits have passed.
func (d *Detector) polls(c *call) bool {
	w := &d.history.waiting
	switch {
	case c.waits:
		return true
	case !c.again, d.config.Mode == Strict:
		return false
	case c.slow:
		return true
	case w.time < uint64(max(c.need, 1)), w.first == c.pair:
		return false
	case w.first == 0:
		w.first = c.pair
	}
	return true
}
