package watchdog_test

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A modelFact is what one event says.
type modelFact struct {
	kind  string
	key   any // facts of one key are one; nil is one of its own
	apply func(w *modelWindow)
	told  bool
}

func newModelWindow(start time.Time) *modelWindow {
	return &modelWindow{start: start, facts: map[any]bool{}, counts: map[string]int{}, asked: map[modelAsk]bool{}}
}

// keep is the store's promise: a fact counts once, and the first of a key stays.
func (w *modelWindow) keep(facts ...*modelFact) {
	for _, f := range facts {
		if f.told || f.key != nil && w.facts[f.key] {
			continue
		}
		f.told = true
		if f.key != nil {
			w.facts[f.key] = true
		}
		w.counts[f.kind]++
		if f.apply != nil {
			f.apply(w)
		}
	}
}

// A modelNews is what somebody who reads the store learns of a window.
type modelNews struct {
	complete bool
	stop     *modelEnd
	extended time.Duration
	pauses   []modelPause
	of       []*modelPause // those of pauses
}

// record has facts wait for the store.
func (r *modelRun) record(facts ...*modelFact) *modelEntry {
	e := &modelEntry{facts: facts}
	r.pending = append(r.pending, e)
	if len(r.pending) > 64 {
		r.pending[0].dropped = true
		r.pending = r.pending[1:]
	}
	return e
}

// tryPending appends what the store does not have.
func (r *modelRun) tryPending() {
	if !r.host.fault.writes() {
		return
	}
	for _, e := range r.pending {
		if r.host.fault.refuses(e.facts[0].kind) {
			continue
		}
		r.window.keep(e.facts...)
		e.stored = r.host.fault.says()
	}
	r.pending = slices.DeleteFunc(r.pending, func(e *modelEntry) bool { return e.stored })
}

// read is what the store says of the window. Nobody but its own process knows of a layer's: it is asked for all of it
// only if it cannot be asked for less.
func (r *modelRun) read() modelNews {
	n := modelNews{complete: r.window.complete(), stop: r.window.stop()}
	if r.outer != nil && r.host.transactional {
		return n
	}
	n.extended, n.of = r.window.extended, r.window.pauses
	for _, p := range r.window.pauses {
		n.pauses = append(n.pauses, *p)
	}
	return n
}

// transact asks what the store knows and tells it what is decided then. A store that does both at once and cannot is
// told what is decided of nothing, as is one that cannot be read.
func (r *modelRun) transact(decide func(modelNews) *modelFact) (known modelNews, kept *modelFact, err error) {
	f := r.host.fault
	if !f.reads() || !f.writes() && r.host.transactional {
		return r.tell(modelNews{}, decide)
	}
	known, kept, err = r.tell(r.read(), decide)
	if !f.says() && r.host.transactional { // in doubt it is told again
		return r.tell(modelNews{}, decide)
	}
	return known, kept, err
}

// tell tells the store what is decided of that.
func (r *modelRun) tell(known modelNews, decide func(modelNews) *modelFact) (modelNews, *modelFact, error) {
	f, kept := r.host.fault, decide(known)
	if kept == nil {
		return known, nil, nil
	}
	if f.writes() {
		r.window.keep(kept)
	}
	if !f.writes() || !f.says() {
		return modelNews{}, nil, errDiskFull
	}
	if f.reads() {
		known = r.read()
	}
	return known, kept, nil
}

func (r *modelRun) endFact(e *modelEnd) *modelFact {
	kind := "cancel"
	if e.complete {
		kind = "complete"
	}
	return &modelFact{kind: kind, key: "end", apply: func(w *modelWindow) { w.end = e }}
}

// carryOut records a cancel, unless the store knows better, and then the run has ended whatever the store says. A wall
// clock that was given more time goes on.
func (r *modelRun) carryOut(e *modelExcess) {
	own := &modelEnd{code: e.reason(), hold: e.holdKey(), rung: e.rung, at: r.host.now()}
	event := r.endFact(own)
	known, kept, err := r.transact(func(known modelNews) *modelFact {
		more := known.extended > r.extended || pausedBefore(known.pauses, r.elapsed) > r.paused(r.elapsed)
		if known.over() || e.limit == "wall_clock" && more || known.closed(e.hold) {
			return nil
		}
		return event
	})
	switch {
	case err != nil:
		r.record(event)
		r.endStopped(own)
	case kept != nil:
		r.endStopped(own)
	default:
		_ = r.adopt(known)
	}
}

// adopt takes what the store says for true. It returns what the run has ended with.
func (r *modelRun) adopt(known modelNews) error {
	switch {
	case known.complete:
		r.complete = true
		r.endWith(watchdog.ErrComplete)
	case known.stop != nil:
		r.endStopped(known.stop)
	default:
		r.learnPauses(known)
		r.extendTo(known.extended)
	}
	return r.cause
}

// finish is Complete.
func (r *modelRun) finish() error {
	r.look()
	if !r.running() {
		return r.finished()
	}
	event := r.endFact(&modelEnd{complete: true, at: r.host.now()})
	known, kept, err := r.transact(func(known modelNews) *modelFact {
		if known.complete {
			return nil
		}
		return event
	})
	switch {
	case err != nil:
		return err
	case kept != nil && !r.host.fault.reads(): // what the store kept is not known
		return errDiskFull
	}
	_ = r.adopt(known)
	return r.finished()
}

func (r *modelRun) finished() error {
	if r.complete {
		return nil
	}
	return watchdog.ErrEnded
}

func (r *modelRun) sync() error {
	r.look()
	switch {
	case !r.running() && r.stop == nil:
		return watchdog.ErrEnded
	case !r.running():
		return nil
	case !r.host.fault.reads():
		return errDiskFull
	}
	_ = r.adopt(r.read())
	if r.stop == nil && !r.running() {
		return watchdog.ErrEnded
	}
	return nil
}
