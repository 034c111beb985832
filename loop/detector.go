package loop

import (
	"slices"
	"sort"

	"github.com/seed62658d38/watchdog/internal/alike"
)

// A Detector finds out whether a run repeats itself. The zero value is ready to use, with the defaults of [Config]. It
// is not safe for concurrent use.
//
// It keeps the last 32 turns and 256 pairs as digests. A pair that comes again after more than that is new to it.
type Detector struct {
	config  Config // complete, if its Mode is not empty
	history history
	reader  alike.Reader // memory of Step, not state
	hints   hints        // of the last input
	signs   signs        // of the last outcome
	calls   []call
}

type history struct {
	turn      uint64 // the number of the last turn; the first is 1
	delivered uint64 // the last turn before the last UNSTUCK was delivered, 0 if none was
	fresh     uint64 // the last turn with a new pair
	changed   uint64 // the last turn with a new successful change, 0 if none had one
	made      uint64 // the last turn with something new that may be one
	tail      tail   // of all turns that count
	hard      tail   // of those with a call that cannot be a poll
	pairs     pairs
	futile    futile
	waiting   waiting
}

// New returns a Detector with the config. It wraps [ErrInvalid] if a field is out of its range.
func New(config Config) (*Detector, error) {
	d := &Detector{}
	if err := d.configure(config); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Detector) configure(config Config) (err error) {
	if d.config, err = config.complete(); err != nil {
		return err
	}
	d.reader = alike.Reader{}
	d.reader.Volatile.Add(config.Volatile...)
	d.reader.Volatile.Add(alike.AgentLines...)
	return nil
}

// Step adds one turn and returns what to do. The calls that a model made at once are one turn, and their order does not
// matter. A turn in which no call counts, because it has none or only waits, drives and retries, leaves all as it was.
func (d *Detector) Step(turn ...Step) Verdict {
	if d.config.Mode == "" {
		_ = d.configure(Config{}) // the defaults are valid
	}
	var most finding
	isNew := d.heard(turn)
	d.calls = d.calls[:0]
	for _, s := range turn {
		s.Class = d.class(&s)
		if c, counts := d.read(&s); counts {
			d.calls = append(d.calls, c)
		}
	}
	d.reader.Shrink()
	d.calls = slices.DeleteFunc(d.calls, func(c call) bool {
		polls := d.polls(&c)
		if polls {
			most = worst(most, d.poll(&c))
		}
		return polls
	})
	if len(d.calls) > 0 {
		sort.Stable((*byPair)(&d.calls))
		isNew = d.add(d.calls) || isNew
		most = worst(d.history.judge(d.calls), most)
	}
	if d.config.Mode == Off {
		most = finding{}
	}
	return most.verdict(isNew)
}

// heard begins anew if a person said something in the turn, and reports whether one did.
func (d *Detector) heard(turn []Step) bool {
	for i := range turn {
		if d.class(&turn[i]) == Person {
			d.history = history{}
			return true
		}
	}
	return false
}

// class returns the class of a step that is declared with it or with its tool, or none.
func (d *Detector) class(s *Step) Class {
	if s.Class.declared() || s.Class == Person {
		return s.Class
	}
	return d.config.Classes[s.Tool]
}

// Delivered says that the run was told that it repeats itself. Two more rounds of what it repeats then end it.
func (d *Detector) Delivered() {
	h := &d.history
	h.delivered, h.tail.told, h.hard.told = h.turn, h.tail.seen, h.hard.seen
	h.futile.deliver()
}

// add adds a turn, whose calls are sorted and not empty. It reports whether one of its pairs is new.
func (d *Detector) add(calls []call) (isNew bool) {
	h := &d.history
	h.turn++
	h.waiting = waiting{}
	for i := range calls {
		if !h.pairs.has(calls[i].pair) {
			isNew, h.fresh = true, h.turn
			if calls[i].succeeded {
				h.changed = h.turn
			}
		}
	}
	if slices.ContainsFunc(calls, func(c call) bool { return c.made }) {
		h.made = h.turn
	}
	if h.changed == h.turn {
		h.futile = futile{}
	}
	h.futile.follow(calls, h.turn)
	for i := range calls {
		if i == 0 || calls[i].pair != calls[i-1].pair {
			h.pairs.add(&calls[i], h.turn)
		}
	}
	digest, _ := turnDigest(calls, true)
	h.tail.add(digest)
	if digest, counts := turnDigest(calls, false); counts {
		h.hard.add(digest)
	}
	return isNew
}

func (h *history) judge(calls []call) finding {
	most := h.tail.judge(calls[0].name, false)
	if _, counts := turnDigest(calls, false); counts {
		most = worst(most, h.hard.judge(calls[0].name, true))
	}
	for i := range calls {
		most = worst(worst(most, h.judgePair(&calls[i])), h.judgeRedo(&calls[i]))
	}
	return worst(most, h.judgeFutile(calls))
}

// Check says what a [Detector] with the config says of the last of the turns, for a hook that is called after each turn
// with all of a run's, and keeps nothing between. It takes it that the run was told wherever the Advice was [Ask]: two
// more rounds of the same are an [End]. A hook that can only stop a run stops it at End or, if an Ask is to mean the
// same, at all but [Go].
//
// It changes no turn. It costs a [Detector.Step] for each, so that a hook of a long run passes the last hundred or so:
// what came before is not remembered much longer. The error is that of [New]; the Advice is Go then.
func Check(turns [][]Step, cfg Config) (Verdict, error) {
	last := Verdict{Advice: Go}
	d, err := New(cfg)
	if err != nil {
		return last, err
	}
	for _, turn := range turns {
		if last = d.Step(turn...); last.Advice == Ask {
			d.Delivered()
		}
	}
	return last, nil
}
