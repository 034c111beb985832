package watchdog_test

import (
	"cmp"
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

// hold opens a hold, or takes over one whose process is gone.
func (r *modelRun) hold(key string, limit watchdog.HoldLimit) (*modelHold, error) {
	if limit.Cap == 0 {
		limit.Cap = limitOf(r.budget.Hold)
	}
	if limit.PausesWallClock && limit.Cap == watchdog.NoLimit {
		return nil, watchdog.ErrInvalid
	}
	r.look()
	if !r.running() {
		return nil, watchdog.ErrEnded
	}
	if r.held(key) != nil {
		return nil, watchdog.ErrHeld
	}
	h := r.takeOver(key, limit)
	if h == nil {
		h = &modelHold{
			run: r, key: key, opened: r.elapsed, limit: limit.Cap, idle: limit.Idle,
			rung: modelRung{rung: r.rungOf("hold", key), at: r.elapsed},
		}
		if limit.PausesWallClock {
			h.pause = r.pause(key, false, limit.Cap)
		}
		r.holds = append(r.holds, h)
	}
	r.opened(limit)
	r.settle()
	if around := r.outer; around != nil && around.running() {
		h.outer = &modelHold{run: around, key: key, inside: true, opened: around.elapsed, limit: watchdog.NoLimit}
		if limit.PausesWallClock {
			taken := around.takeLeft(key, true)
			h.outer.pause = around.pause(key, true, limit.Cap)
			around.releaseTaken(taken, h.outer.pause)
		}
		around.holds, around.changed = append(around.holds, h.outer), around.elapsed
		around.settle()
	}
	return h, nil
}

// takeOver has a hold take over what processes that are known to be gone left open with its key: it is the one that may
// last longest. It returns nil if there is nothing.
func (r *modelRun) takeOver(key string, limit watchdog.HoldLimit) *modelHold {
	taken := r.takeLeft(key, false)
	if len(taken) == 0 {
		return nil
	}
	last := slices.MaxFunc(taken, func(a, b *modelLeft) int { return cmp.Compare(a.opened+a.limit, b.opened+b.limit) })
	h := last.hold
	if h == nil {
		h = r.expect(last.modelPause)
	}
	h.left, h.beside, h.idle = false, false, limit.Idle
	h.pause = r.pause(key, false, max(last.opened+last.limit-r.elapsed.Truncate(time.Microsecond), 0))
	r.releaseTaken(taken, h.pause)
	return h
}

// opened notes that a hold was opened: it is life, and signals count from the first on that limits the silence.
func (r *modelRun) opened(limit watchdog.HoldLimit) {
	r.changed, r.heeding = r.elapsed, r.heeding || limit.Idle > 0
}

func (r *modelRun) held(key string) *modelHold {
	for _, h := range r.holds {
		if h.key == key && !h.inside && !h.left {
			return h
		}
	}
	return nil
}

// settle is a look after a change, at a moment at which nothing can be exceeded.
func (r *modelRun) settle() {
	if r.due {
		r.due = false
		r.tryPending()
	}
}

// pause is a hold's that stops the wall clock, from now on.
func (r *modelRun) pause(key string, layer bool, limit time.Duration) *modelPause {
	p := &modelPause{
		key: key, layer: layer, opener: r.opener, opened: r.elapsed.Truncate(time.Microsecond), limit: limit,
	}
	e := &modelEntry{opens: p, facts: []*modelFact{
		{kind: "hold", apply: func(w *modelWindow) { w.pauses = append(w.pauses, p) }},
	}}
	r.pend(e)
	r.pauses = append(r.pauses, modelKnown{p, *p, true})
	r.due = true
	return p
}

// unpause ends it, and the ladder of its hold.
func (r *modelRun) unpause(p *modelPause, ended []*modelDirective) {
	if p != nil || len(ended) > 0 {
		r.recordRelease(p, nil, ended)
	}
}

// recordRelease ends a pause, for the one that took it over if one did.
func (r *modelRun) recordRelease(p, by *modelPause, ended []*modelDirective) {
	at := r.elapsed.Truncate(time.Microsecond)
	f := &modelFact{kind: "release", apply: endAll(ended)}
	if p != nil {
		f.key = [3]any{"release", p, by}
		f.apply = func(w *modelWindow) {
			endAll(ended)(w)
			if by == nil || !p.closed || !p.closedByOpener && at < p.released {
				p.closed, p.released, p.closedByOpener = true, at, by == nil
			}
		}
	}
	r.pend(&modelEntry{facts: []*modelFact{f}, closes: p})
	if p != nil {
		known := r.known(p)
		known.closed, known.released = true, at
	}
	r.due = true
}

func (r *modelRun) known(p *modelPause) *modelKnown {
	for i := range r.pauses {
		if r.pauses[i].of == p {
			return &r.pauses[i]
		}
	}
	return nil
}

// closed reports whether the store knows that a hold which another process left open was closed by that.
func (n modelNews) closed(h *modelHold) bool {
	if h == nil || !h.left {
		return false
	}
	i := slices.Index(n.of, h.pause)
	return i >= 0 && n.pauses[i].closed
}

// learnPauses counts what the store knows of other processes, and lets go of holds that these have closed.
func (r *modelRun) learnPauses(news modelNews) {
	before := slices.Clone(r.pauses)
	r.pauses = r.pausesWith(news)
	for i, now := range r.pauses {
		switch {
		case i >= len(before) && !now.closed:
			r.leftOpen = append(r.leftOpen, &modelLeft{modelPause: now.of})
		case i < len(before) && now != before[i]:
			r.letGo(now.of)
		}
	}
}

// pausesWith is what is known of the pauses with what the store knows of those of other processes.
func (r *modelRun) pausesWith(news modelNews) []modelKnown {
	all := slices.Clone(r.pauses)
	for i, p := range news.pauses {
		at := slices.IndexFunc(all, func(known modelKnown) bool { return known.of == news.of[i] })
		switch {
		case at < 0:
			all = append(all, modelKnown{news.of[i], p, false})
		case !all[at].own && p.closed:
			all[at].modelPause = p
		}
	}
	return all
}

func (r *modelRun) letGo(p *modelPause) {
	r.leftOpen = slices.DeleteFunc(r.leftOpen, func(l *modelLeft) bool { return l.modelPause == p })
	before := len(r.holds)
	r.holds = slices.DeleteFunc(r.holds, func(h *modelHold) bool { return h.left && h.pause == p })
	if len(r.holds) < before {
		r.changed = r.elapsed
	}
}

// takeLeft takes what was left open with a key and is known to be nobody's any more. The others stay beside it.
func (r *modelRun) takeLeft(key string, layer bool) (taken []*modelLeft) {
	r.leftOpen = slices.DeleteFunc(r.leftOpen, func(l *modelLeft) bool {
		switch {
		case l.key != key || l.layer != layer:
			return false
		case !l.opener.over || l.opener.elsewhere:
			if l.hold != nil {
				l.hold.beside = true
			}
			return false
		}
		if l.hold != nil || l.opened+l.limit >= r.elapsed {
			taken = append(taken, l)
		}
		return true
	})
	return taken
}

func (r *modelRun) releaseTaken(taken []*modelLeft, by *modelPause) {
	for _, l := range taken {
		r.letGo(l.modelPause)
		r.recordRelease(l.modelPause, by, nil)
	}
}

// release closes a hold, here and on the run around.
func (h *modelHold) release() bool {
	if h == nil || h.closed {
		return false
	}
	r := h.run
	recorded, _ := r.judge() // it may be over by now; nothing else can be
	r.due = r.due || recorded
	if h.closed {
		return false
	}
	h.closed = true
	r.holds = slices.DeleteFunc(r.holds, func(other *modelHold) bool { return other == h })
	r.changed = r.elapsed
	var ended []*modelDirective
	if !h.inside {
		ended = r.over(func(g modelGiven) bool { return g.limit == "hold" && g.hold == h.key })
	}
	r.unpause(h.pause, ended)
	r.settle()
	h.outer.release()
	return true
}

// restoreHolds takes up what is open in the store. Those of layers stop the wall clock and hold nothing.
func (r *modelRun) restoreHolds() {
	r.learnPauses(r.read())
	slices.SortStableFunc(r.leftOpen, func(a, b *modelLeft) int { return cmp.Compare(a.opened, b.opened) })
	for i, l := range r.leftOpen {
		if l.layer {
			continue
		}
		l.hold = r.expect(l.modelPause)
		l.hold.beside = slices.ContainsFunc(r.leftOpen[i+1:], func(later *modelLeft) bool {
			return later.key == l.key && !later.layer
		})
	}
}

// expect has what was left open expect silence.
func (r *modelRun) expect(p *modelPause) *modelHold {
	stands := r.rungOf("hold", p.key)
	ladder := r.budget.Ladders.Hold
	waited := len(ladder) > 0 && stands >= len(ladder) && ladder[len(ladder)-1] == watchdog.DirectiveWait
	h := &modelHold{
		run: r, key: p.key, opened: p.opened, limit: p.limit, pause: p, left: true,
		rung: modelRung{rung: stands, at: p.opened, last: waited},
	}
	r.holds = append(r.holds, h)
	return h
}
