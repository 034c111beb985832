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
func (r *modelRun) record(facts ...*modelFact) { r.pend(&modelEntry{facts: facts}) }

// pend has one more wait. Of more than 64 the oldest is dropped: a pause as a whole and not while it is open, or nobody
// has tried to record its end, or the store has its opening.
func (r *modelRun) pend(e *modelEntry) {
	if r.pending = append(r.pending, e); e.closes != nil {
		r.ends[e.closes] = e
	}
	for len(r.pending) > 64 {
		i := slices.IndexFunc(r.pending, func(old *modelEntry) bool {
			end := r.ends[old.opens]
			open := old.opens != nil && (end == nil || !end.stored && (end == e || !end.tried))
			return old != e && !open && old.closes == nil
		})
		if i < 0 {
			return
		}
		dropped, end := r.pending[i], r.ends[r.pending[i].opens]
		r.pending = slices.DeleteFunc(r.pending, func(old *modelEntry) bool { return old == dropped || old == end })
	}
}

// tryPending appends what the store does not have.
func (r *modelRun) tryPending() {
	for _, e := range r.pending {
		e.tried = true
	}
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

// transact asks what the store knows and tells it what is decided then, behind what it lacks before that. If it refuses
// both together, it is told what is decided alone.
func (r *modelRun) transact(
	before []*modelEntry, decide func(modelNews) *modelFact,
) (known modelNews, kept *modelFact, err error) {
	known, kept, err = r.transactOnce(before, decide)
	if err != nil && len(before) > 0 {
		return r.transactOnce(nil, decide)
	}
	return known, kept, err
}

// transactOnce asks and tells. A store that does both at once and cannot is told what is decided of nothing, as is one
// that cannot be read.
func (r *modelRun) transactOnce(
	before []*modelEntry, decide func(modelNews) *modelFact,
) (known modelNews, kept *modelFact, err error) {
	f := r.host.fault
	if !f.reads() || r.host.transactional && (!f.writes() || r.refused(before)) {
		return r.tell(modelNews{}, before, decide)
	}
	known, kept, err = r.tell(r.read(), before, decide)
	if !f.says() && r.host.transactional { // in doubt it is told again
		return r.tell(modelNews{}, before, decide)
	}
	return known, kept, err
}

func (r *modelRun) refused(entries []*modelEntry) bool {
	return slices.ContainsFunc(entries, func(e *modelEntry) bool { return r.host.fault.refuses(e.facts[0].kind) })
}

// tell tells the store what is decided of that, behind what it lacks.
func (r *modelRun) tell(
	known modelNews, before []*modelEntry, decide func(modelNews) *modelFact,
) (modelNews, *modelFact, error) {
	f, kept := r.host.fault, decide(known)
	if kept == nil {
		return known, nil, nil
	}
	if !f.writes() || r.refused(before) {
		return modelNews{}, nil, errDiskFull
	}
	for _, e := range before {
		r.window.keep(e.facts...)
	}
	r.window.keep(kept)
	if !f.says() {
		return modelNews{}, nil, errDiskFull
	}
	r.pending = slices.DeleteFunc(r.pending, func(e *modelEntry) bool {
		e.stored = e.stored || slices.Contains(before, e)
		return e.stored
	})
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
	var pauses []*modelEntry // which the store does not have
	for _, e := range r.pending {
		if e.opens != nil || e.closes != nil {
			pauses = append(pauses, e)
		}
	}
	known, kept, err := r.transact(pauses, func(known modelNews) *modelFact {
		more := known.extended > r.extended || pausedIn(r.pausesWith(known), r.elapsed) > r.paused(r.elapsed)
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
	known, kept, err := r.transact(nil, func(known modelNews) *modelFact {
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
