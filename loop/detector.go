package loop

import (
	"slices"
	"sort"
)

// A Detector finds out whether a run repeats itself. The zero value is ready to use, with the defaults of [Config]. It
// is not safe for concurrent use.
//
// It keeps the last 32 turns and the last 256 pairs as digests, whatever the run does. A pair that comes again after
// more than that is new to it.
type Detector struct {
	config   Config // complete, if rounds is not 0
	volatile map[string]bool
	history  history
	reader   reader // memory of Step, not state
	calls    []call
}

// A history is all that a detector remembers.
type history struct {
	turn      uint64 // the number of the last turn; the first is 1
	delivered uint64 // the last turn before the last UNSTUCK was delivered, 0 if none was
	changed   uint64 // the last turn with a new successful change, 0 if none had one
	tail      tail
	pairs     pairs
	futile    futile
	fuse      fuse
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
	d.volatile = make(map[string]bool, len(config.Volatile))
	for _, name := range config.Volatile {
		d.volatile[name] = true
	}
	return nil
}

// Step adds one turn and returns what to do. The calls that a model made at once are one turn, and their order does not
// matter. A turn in which no call counts, because it has none or only waits, drives and retries, leaves all as it was.
func (d *Detector) Step(turn ...Step) Verdict {
	if d.config.Rounds == 0 {
		_ = d.configure(Config{}) // the defaults are valid
	}
	var most finding
	d.calls = d.calls[:0]
	for i := range turn {
		if c, counts := d.read(&turn[i]); counts {
			d.calls = append(d.calls, c)
		}
	}
	d.reader.shrink()
	d.calls = slices.DeleteFunc(d.calls, func(c call) bool {
		polls := d.history.polls(&c)
		if polls {
			most = worst(most, d.history.poll(&c, &d.config))
		}
		return polls
	})
	isNew := false
	if len(d.calls) > 0 {
		sort.Stable((*byPair)(&d.calls))
		isNew = d.history.add(d.calls)
		most = worst(d.history.judge(d.calls, &d.config), most)
	}
	return most.verdict(isNew)
}

// Delivered says that the run was told that it repeats itself. Two more rounds of what it repeats then end it.
func (d *Detector) Delivered() {
	d.history.delivered = d.history.turn
	d.history.futile.deliver()
}

// add adds a turn, whose calls are sorted and not empty. It reports whether one of its pairs is new.
func (h *history) add(calls []call) (isNew bool) {
	h.turn++
	h.waiting = waiting{}
	for i := range calls {
		if !h.pairs.has(calls[i].pair) {
			isNew = true
			if calls[i].succeeded {
				h.changed = h.turn
			}
		}
	}
	if h.changed == h.turn {
		h.futile = futile{}
	}
	h.follow(calls)
	for i := range calls {
		if i == 0 || calls[i].pair != calls[i-1].pair {
			h.pairs.add(&calls[i], h.turn)
		}
	}
	h.tail.add(turnDigest(calls))
	return isNew
}

func (h *history) judge(calls []call, c *Config) finding {
	most := h.judgeTail(c)
	most = worst(most, h.judgePairs(calls, c))
	most = worst(most, h.judgeFutile(c))
	return worst(most, h.judgeFuse(c))
}

// follow brings the calls of a turn into the fuse and into the futile series. Their order does not matter.
func (h *history) follow(calls []call) {
	for _, seen := range []bool{false, true} {
		for i := range calls {
			if h.pairs.repeats(&calls[i], h.changed) == seen {
				h.fuse.add(seen)
			}
		}
	}
	for i := range calls {
		h.futile.end(&calls[i])
	}
	for i := range calls {
		h.futile.add(&calls[i], h.turn)
	}
}
