package loop

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"time"
)

// maxKept is how much memory a detector keeps between two turns.
const maxKept = 64 << 10

// thinking is how long a model alone often takes. A call of no class that repeats after it may be a poll, and ends
// nothing; after unknownPoll it is taken for one.
const (
	thinking    = 5 * time.Second
	unknownPoll = 30 * time.Second
)

// waitedPoll is how long waits take after which a look may be a poll. Less may be a model that sleeps for a moment
// before it does the same again, since the time it thinks is part of a Gap.
const waitedPoll = 15 * time.Second

// A reader turns steps into digests.
type reader struct{ canon canon }

// A call is what is known of a step that counts.
type call struct {
	name      string        // of the tool
	pair      uint64        // digest of tool, input, outcome and refusal
	rough     uint64        // the same, of a failure without what has digits
	input     uint64        // digest of tool and input
	tool      uint64        // digest of the tool
	aim       uint64        // digest of the tool and the input without where it reads, if it says that
	gets      uint64        // digest of what is futile if calls of its kind get it again and again, 0 if nothing is
	useful    bool          // it ends the futile series of those that get something else
	phrased   bool          // it only counts as futile if its words are those of others
	words     words         // of its input
	large     bool          // it is a change with so long an input that it counts as made again whatever comes back
	succeeded bool          // it is a change, and there is no sign of a failure
	again     bool          // it got the same before, and may be a poll once time has passed
	slow      bool          // enough time has passed since the last step
	soft      bool          // it may be a poll, so that it ends nothing
	waits     bool          // it is a wait that counts, see [Config].Waits
	need      time.Duration // how long waits take after which enough has
}

// byPair sorts the calls of a turn. Package slices would make a sort for this type alone, a tenth of what the
// package links.
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
	r := &d.reader
	form, outcome := d.forms(s)
	hint, sign := r.canon.hints, r.canon.signs
	class := d.guess(s, &hint)
	if !s.counts(class) {
		d.history.waits(s, class)
		input := digest(form)
		return call{name: s.Tool, pair: paired(input, digest(outcome)), input: input, waits: true}, d.judgesWait(s, class)
	}
	sign.failed = sign.failed || s.Failed || s.Refused
	c := call{name: s.Tool, input: digest(form), tool: digest([]byte(s.Tool)), words: hint.words}
	c.gets = max(digest(outcome), nothing+1)
	c.pair = paired(c.input, c.gets)
	c.rough = c.pair
	if sign.failed && !hint.computes && !d.without.lacks(theFailure) {
		r.failure(&c, outcome)
	}
	c.large = class == Change && len(s.Input) >= redoLength
	c.succeeded = class == Change && !sign.failed
	c.again = class != Change && !s.Refused && !sign.noTool && d.history.pairs.has(c.pair)
	c.slow, c.soft, c.need = d.passed(s, class, &sign)
	c.soft = d.config.Mode != Strict && (c.soft && c.again || !sign.failed && d.shows(s, class, &hint))
	d.futile(s, &c, class, &hint, &sign, len(outcome))
	return c, true
}

// judgesWait reports whether the step is a wait, and waits count.
func (d *Detector) judgesWait(s *Step, class Class) bool {
	return class == Wait && !s.Retry && d.config.Waits != Go
}

// failure says what a failure has in common with others: of the same input, all but the words that have a digit; of
// another input, its first line, because the others often echo the input.
func (r *reader) failure(c *call, outcome []byte) {
	start := len(r.canon.out)
	r.canon.out = appendRough(r.canon.out, outcome)
	rough := r.canon.out[start:]
	c.rough = paired(c.input, digest(rough))
	c.gets = max(digest(firstLine(rough)), nothing+1)
}

// firstLine returns the beginning of the first line of the form of a failure that says more than that it is one, or
// all of the form.
func firstLine(form []byte) []byte {
	line, rest, _ := bytes.Cut(form, []byte("\n"))
	if len(line) < leastLine {
		line, _, _ = bytes.Cut(rest, []byte("\n"))
	}
	line = bytes.TrimSpace(line[:min(len(line), mostLine)])
	if len(line) < leastLine || line[len(line)-1] == ':' { // such as the one above a traceback
		return form
	}
	return line
}

// How long a first line is that says something, and what is compared of it, in bytes.
const (
	leastLine = 20
	mostLine  = 60
)

// futile says what the call has in common with others that get nothing better. The form of the outcome is not valid any
// more after it.
func (d *Detector) futile(s *Step, c *call, class Class, hint *hints, sign *signs, size int) {
	c.useful = true
	gets := c.gets
	c.gets = 0
	switch {
	case s.Refused || sign.noTool || class == Change && sign.failed:
		c.gets, c.useful = gets, false
	case class == Look && (hint.search || named(s.Tool, searching)):
		c.phrased = !d.without.lacks(theWording)
		c.looks(gets, size, sign)
	case class == Look && hint.placed && !d.without.lacks(theAim):
		c.looks(gets, size, sign)
		c.aim = d.reader.aim(s)
	case class != Change && sign.failed:
		c.gets, c.useful, c.phrased = gets, sign.content, !d.without.lacks(theWording)
	}
}

// nothing is what all looks get that find nothing or fail, however they put it.
const nothing = 1

// telling is how long an outcome is, in bytes, if it says more than one number or one word.
const telling = 100

// looks says what a search has in common with others in other words, or a read with those at other places: that there
// is nothing, or the same text.
func (c *call) looks(gets uint64, size int, sign *signs) {
	switch {
	case sign.failed || sign.empty():
		c.gets, c.useful = nothing, false
	case size >= telling:
		c.gets = gets
	}
}

// passed says when a call that got the same before may be a poll, which is when what it looks at had time to change:
// whether it is taken for one now, whether it may be one, and after how long waits it is one.
func (d *Detector) passed(s *Step, class Class, sign *signs) (slow, soft bool, need time.Duration) {
	guessed := !s.Class.declared()
	switch {
	case guessed && sign.underWay:
		return true, false, 0
	case sign.underWay, guessed && sign.empty() && named(s.Tool, receiving):
		return s.Gap >= thinking, false, thinking - s.Gap
	case class == Look || sign.stays():
		return s.Gap >= lookPoll, false, waitedPoll
	case sign.failed || sign.awaited || sign.computes || d.config.Waits == End || d.without.lacks(thePace): // what failed may come, and a test may be flaky
		return s.Gap >= thinking, false, thinking - s.Gap
	}
	return s.Gap >= unknownPoll, s.Gap >= thinking, thinking - s.Gap
}

// shows reports whether a call looks at how things stand, which stays as it is for as long as it does.
func (d *Detector) shows(s *Step, class Class, hint *hints) bool {
	return class == Look && !d.without.lacks(theState) && (hint.state || named(s.Tool, stating))
}

// stays reports whether the outcome is a failure that does not pass by itself.
func (s *signs) stays() bool { return s.failed && !s.awaited || s.broken && (s.failed || !s.exited) }

// forms returns the forms of the input, with the tool, and of the outcome of a step. They are valid until the next call.
func (d *Detector) forms(s *Step) (input, outcome []byte) {
	c := &d.reader.canon
	*c = canon{out: c.out[:0], spare: c.spare, members: c.members, volatile: d.volatile}
	c.plain = d.without.lacks(theBlur)
	c.out = binary.LittleEndian.AppendUint64(c.out, uint64(len(s.Tool)))
	c.out = append(c.out, s.Tool...)
	c.write(s.Input)
	start := len(c.out)
	c.out = append(c.out, refusal(s))
	c.outcome, c.signs.computes = true, c.hints.computes
	hint := c.hints
	c.write(d.outcome(s))
	c.hints = hint
	return c.out[:start], c.out[start:]
}

// paired is the digest of an input with an outcome. It is no sum of parts of the two, because those of a turn are summed.
func paired(input, outcome uint64) uint64 {
	high, low := bits.Mul64(input, bits.RotateLeft64(outcome, 32)|1)
	return max(high^low, 1)
}

// outcome returns what is compared of an outcome.
func (d *Detector) outcome(s *Step) []byte {
	if d.config.Normalize == nil {
		return s.Outcome
	}
	return d.config.Normalize(s.Tool, s.Outcome)
}

func refusal(s *Step) byte {
	if s.Refused {
		return 'r'
	}
	return 'c'
}

// aim returns a digest of the tool and of the input without the numbers that say where to read.
func (r *reader) aim(s *Step) uint64 {
	c := &r.canon
	*c = canon{out: append(c.out[:0], s.Tool...), spare: c.spare, members: c.members, placed: true}
	c.out = append(c.out, endMark)
	c.write(s.Input)
	return digest(c.out)
}

// shrink drops memory that only a large step needed.
func (r *reader) shrink() {
	if cap(r.canon.out)+cap(r.canon.spare) > maxKept {
		r.canon = canon{}
	}
	r.canon.in = nil
}

// digest is the beginning of a SHA-256: 64 bits are enough to tell some hundred pairs apart. It is never 0, which is
// none.
func digest(form []byte) uint64 {
	sum := sha256.Sum256(form)
	return max(binary.LittleEndian.Uint64(sum[:]), 1)
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
