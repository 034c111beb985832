package loop

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// maxKept is how much memory a detector keeps between two turns.
const maxKept = 64 << 10

// unknownPoll is the Gap from which a step of no class at all may be a poll. A model alone often takes a few seconds.
const unknownPoll = 5 * time.Second

// waitedPoll is how long waits take after which a look may be a poll. Less may be a model that sleeps for a moment
// before it does the same again, since the time it thinks is part of a Gap.
const waitedPoll = 15 * time.Second

// A reader turns steps into digests.
type reader struct{ canon canon }

// A call is what is known of a step that counts.
type call struct {
	name      string        // of the tool
	pair      uint64        // digest of tool, input, outcome and refusal
	input     uint64        // digest of tool and input
	tool      uint64        // digest of the tool
	aim       uint64        // digest of the tool and the input without where it reads, if it says that
	gets      uint64        // digest of what is futile if calls of its kind get it again and again, 0 if nothing is
	useful    bool          // it ends the futile series of those that get something else
	phrased   bool          // it only counts as futile if its words are those of others
	words     words         // of its input
	succeeded bool          // it is a change, and there is no sign of a failure
	again     bool          // it got the same before, and may be a poll once time has passed
	slow      bool          // enough time has passed since the last step
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
	form, outcome := d.pair(s)
	hint, sign := r.canon.hints, r.canon.signs
	class := d.guess(s, &hint)
	if !s.counts(class) {
		d.history.waits(s, class)
		return call{name: s.Tool, pair: digest(form), input: digest(form[:outcome]), waits: true}, d.judgesWait(s, class)
	}
	sign.failed = sign.failed || s.Failed || s.Refused
	c := call{
		name: s.Tool, pair: digest(form), input: digest(form[:outcome]), tool: digest([]byte(s.Tool)), words: hint.words,
	}
	c.succeeded = class == Change && !sign.failed
	c.again = class != Change && !s.Refused && !sign.noTool && d.history.pairs.has(c.pair)
	c.slow, c.need = d.passed(s, class, &sign)
	d.futile(s, &c, class, &hint, &sign, form[outcome:])
	return c, true
}

// judgesWait reports whether the step is a wait, and waits count.
func (d *Detector) judgesWait(s *Step, class Class) bool {
	return class == Wait && !s.Retry && d.config.Waits != Go
}

// futile says what the call has in common with others that get nothing better. The form of the outcome is not valid any
// more after it.
func (d *Detector) futile(s *Step, c *call, class Class, hint *hints, sign *signs, outcome []byte) {
	c.useful = true
	switch gets := max(digest(outcome), nothing+1); {
	case s.Refused || sign.noTool || class == Change && sign.failed:
		c.gets, c.useful = gets, false
	case class == Look && (hint.search || searches(s.Tool)):
		c.phrased = !d.without.lacks(theWording)
		c.looks(gets, len(outcome), sign)
	case class == Look && hint.placed && !d.without.lacks(theAim):
		c.looks(gets, len(outcome), sign)
		c.aim = d.reader.aim(s)
	case class != Change && sign.failed:
		c.gets, c.phrased = gets, !d.without.lacks(theWording)
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
// whether that is now, and after how long waits it is.
func (d *Detector) passed(s *Step, class Class, sign *signs) (slow bool, need time.Duration) {
	guessed := !s.Class.declared()
	switch {
	case guessed && sign.underWay:
		return true, 0
	case sign.underWay, guessed && sign.empty() && receives(s.Tool): // as below
	case class == Look || sign.stays():
		return s.Gap >= lookPoll, waitedPoll
	}
	return s.Gap >= unknownPoll, unknownPoll - s.Gap
}

// stays reports whether the outcome is a failure that does not pass by itself.
func (s *signs) stays() bool { return s.broken || s.failed && !s.awaited }

// pair returns the form of a step, and where that of its outcome begins. Both are valid until the next call.
func (d *Detector) pair(s *Step) (form []byte, outcome int) {
	c := &d.reader.canon
	*c = canon{out: c.out[:0], spare: c.spare, members: c.members, volatile: d.volatile}
	c.plain = d.without.lacks(theBlur)
	c.out = binary.LittleEndian.AppendUint64(c.out, uint64(len(s.Tool)))
	c.out = append(append(c.out, 0, 0, 0, 0, 0, 0, 0, 0), s.Tool...)
	c.write(s.Input)
	outcome = len(c.out)
	binary.LittleEndian.PutUint64(c.out[8:], uint64(outcome))
	c.out = append(c.out, refusal(s))
	c.outcome, c.signs.computes = true, c.hints.computes
	hint := c.hints
	c.write(d.outcome(s))
	c.hints = hint
	return c.out, outcome
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

// turnDigest is the digest of a turn whose calls are sorted.
func turnDigest(calls []call) uint64 {
	if len(calls) == 1 {
		return calls[0].pair
	}
	var memory [128]byte
	form := memory[:0]
	for i := range calls {
		form = binary.LittleEndian.AppendUint64(form, calls[i].pair)
	}
	return digest(form)
}
