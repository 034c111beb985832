package watchdog_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
)

// The model is the rules as one would explain them. A window is a link in a chain and knows no time but the text of its
// start, which hosts pass on; what the store holds are facts about windows; what a process knows is what it saw itself
// and what it read. All of it happens at moments: a step of a history takes no time or is nothing but time.

// A modelWindow is what the store holds about one stretch of time.
type modelWindow struct {
	start      time.Time // to the microsecond, different from those of all others of the run
	facts      map[any]bool
	counts     map[string]int // of events, by their kinds
	end        *modelEnd      // under the ID of which there is one
	foreign    []*modelEnd    // by writers who know nothing of such IDs
	extended   time.Duration
	asked      map[modelAsk]bool
	directives []*modelDirective
	pauses     []*modelPause
}

type (
	modelEnd struct {
		complete bool
		code     watchdog.StopReason
		hold     string
		rung     int
		at       time.Time
	}
	// A modelAsk is what comes once under a budget: a warning, or the request to wrap up.
	modelAsk struct {
		kind   string
		budget time.Duration
	}
	modelDirective struct {
		limit, hold string
		rung        int
		over        bool // there was progress, or its hold was closed
	}
	modelPause struct {
		key              string
		layer            bool
		opened, released time.Duration
		limit            time.Duration
		closed           bool
	}
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

// stop is the cancel that counts, nil if there is none or the work is done all the same.
func (w *modelWindow) stop() *modelEnd {
	if w.complete() {
		return nil
	}
	all := slices.Clone(w.foreign)
	if w.end != nil {
		all = append(all, w.end)
	}
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, func(a, b *modelEnd) int { return a.at.Compare(b.at) })
}

func (w *modelWindow) complete() bool { return w.end != nil && w.end.complete }

// A modelNews is what somebody who reads the store learns of a window.
type modelNews struct {
	complete bool
	stop     *modelEnd
	extended time.Duration
	pauses   []modelPause
	of       []*modelPause // those of pauses
}

func (n modelNews) over() bool { return n.complete || n.stop != nil }

// A modelHost is a process and its way to the store.
type modelHost struct {
	clock         *hostClock
	fault         fault
	transactional bool
}

func (h *modelHost) now() time.Time { return h.clock.Now().Truncate(time.Microsecond) }

// A modelRun is a run, or a layer of one, in one process.
type modelRun struct {
	host   *modelHost
	outer  *modelRun
	window *modelWindow
	budget watchdog.Budget

	elapsed, attached       time.Duration
	extended                time.Duration
	warned, wrapped         bool
	signalled, progressed   bool
	first, active, progress time.Duration
	released                time.Duration // the last hold
	idle, noProgress        modelRung
	holds                   []*modelHold // open, in the order of their opening
	pauses                  []modelKnown
	pausing                 []modelPausing
	given                   []modelGiven
	pending                 []*modelEntry
	due                     bool // there is something to record that nobody tried
	digests                 map[string]bool
	mail                    []modelMail
	mailed                  bool // that the run was cancelled

	leftOpen []*modelPause // of layers of a process that is gone

	cause    error // nil while it runs
	stop     *modelEnd
	complete bool // and not only the run around
}

type (
	modelRung struct {
		rung int
		at   time.Duration
	}
	modelHold struct {
		run           *modelRun
		key           string
		inside        bool // opened in a layer
		opened, limit time.Duration
		rung          modelRung
		closed        bool
		pause         *modelPause
		restored      bool
		outer         *modelHold
	}
	modelKnown struct {
		of *modelPause
		modelPause
	}
	// A modelPausing waits for the store to have its entry.
	modelPausing struct {
		entry *modelEntry
		of    *modelPause
		ends  bool
		at    time.Duration
	}
	modelGiven struct {
		*modelDirective
		at time.Duration
	}
	modelEntry struct {
		facts           []*modelFact
		stored, dropped bool
	}
	modelMail struct {
		kind   watchdog.DirectiveKind
		reason watchdog.StopReason
		hold   string
		rung   int
	}
	// A modelExcess is a limit that was exceeded, and since when.
	modelExcess struct {
		limit string
		since time.Duration
		rung  int
		hold  *modelHold
		code  watchdog.StopReason // of the host's
	}
)

func limitOf(d time.Duration) time.Duration {
	if d == 0 {
		return watchdog.NoLimit
	}
	return d
}

func (r *modelRun) running() bool { return r.cause == nil }

// allowed is the wall clock's limit.
func (r *modelRun) allowed() time.Duration {
	if r.budget.WallClock == watchdog.NoLimit {
		return watchdog.NoLimit
	}
	return r.budget.WallClock + r.extended
}

// pausedBefore is how much of the time before now lies in a pause: each stretch between two instants at which a pause
// begins or ends does, or does not.
func pausedBefore(pauses []modelPause, now time.Duration) (paused time.Duration) {
	if len(pauses) == 0 {
		return 0
	}
	end := func(p modelPause) time.Duration {
		if p.closed {
			return min(p.released, p.opened+p.limit)
		}
		return p.opened + p.limit
	}
	instants := []time.Duration{now}
	for _, p := range pauses {
		instants = append(instants, min(p.opened, now), min(end(p), now))
	}
	slices.Sort(instants)
	for i, from := range instants[:len(instants)-1] {
		if slices.ContainsFunc(pauses, func(p modelPause) bool { return p.opened <= from && from < end(p) }) {
			paused += instants[i+1] - from
		}
	}
	return paused
}

func (r *modelRun) paused(now time.Duration) time.Duration {
	if len(r.pauses) == 0 {
		return 0
	}
	var all []modelPause
	for _, p := range r.pauses {
		all = append(all, p.modelPause)
	}
	return pausedBefore(all, now)
}

func (r *modelRun) worked() time.Duration { return r.elapsed - r.paused(r.elapsed) }

// workedSince is the first instant at which the wall clock showed that much.
func (r *modelRun) workedSince(much time.Duration) time.Duration {
	from, to := time.Duration(0), r.elapsed
	for from < to {
		if middle := (from + to) / 2; middle-r.paused(middle) >= much {
			to = middle
		} else {
			from = middle + 1
		}
	}
	return from
}

func (r *modelRun) remaining() time.Duration {
	if !r.running() {
		return 0
	}
	left := r.left()
	if left != watchdog.NoLimit && left > r.budget.Reserve {
		left -= r.budget.Reserve
	}
	return left
}

// left is what is left with the reserve.
func (r *modelRun) left() time.Duration {
	r.countPauses()
	if r.allowed() == watchdog.NoLimit {
		return watchdog.NoLimit
	}
	return max(r.allowed()-r.worked(), 0)
}

// stands is where a ladder stands: progress puts it back.
func (r *modelRun) stands(on modelRung) int {
	if r.progressed && r.progress >= on.at {
		return 0
	}
	return on.rung
}

// exceeded is the limit that was exceeded first, of those at one instant the first of the table.
func (r *modelRun) exceeded() *modelExcess {
	var all []*modelExcess
	more := func(limit string, from, allowed time.Duration, on modelRung, hold *modelHold) {
		if allowed != watchdog.NoLimit && r.elapsed-from > allowed {
			all = append(all, &modelExcess{limit: limit, since: from + allowed + 1, rung: r.stands(on), hold: hold})
		}
	}
	if allowed := r.allowed(); allowed != watchdog.NoLimit && r.worked() > allowed {
		all = append(all, &modelExcess{limit: "wall_clock", since: r.workedSince(allowed + 1)})
	}
	more("safety", r.attached, limitOf(r.budget.Safety), modelRung{}, nil)
	for _, h := range r.holds {
		more("hold", max(h.opened, h.rung.at), h.limit, h.rung, h)
	}
	if len(r.holds) == 0 {
		from, idle, noProgress := r.attached, limitOf(r.budget.Idle), limitOf(r.budget.NoProgress)
		switch {
		case r.budget.FromFirstSign && r.signalled:
			from = r.first
		case r.budget.FromFirstSign:
			idle, noProgress = limitOf(r.budget.FirstSign), watchdog.NoLimit
		}
		more("no_progress", max(from, r.progress, r.released, r.noProgress.at), noProgress, r.noProgress, nil)
		more("idle", max(from, r.active, r.released, r.idle.at), idle, r.idle, nil)
	}
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, func(a, b *modelExcess) int { return cmp.Compare(a.since, b.since) })
}

// asks is the directive of a trip.
func (r *modelRun) asks(e *modelExcess) watchdog.DirectiveKind {
	ladder := map[string][]watchdog.DirectiveKind{
		"idle": r.budget.Ladders.Idle, "no_progress": r.budget.Ladders.NoProgress, "hold": r.budget.Ladders.Hold,
	}[e.limit]
	if e.code == "" && e.rung < len(ladder) {
		return ladder[e.rung]
	}
	return watchdog.DirectiveCancel
}

func (e *modelExcess) reason() watchdog.StopReason {
	if e.code != "" {
		return e.code
	}
	return watchdog.StopReason("watchdog_" + e.limit + "_exceeded")
}

func (e *modelExcess) holdKey() string {
	if e.hold == nil {
		return ""
	}
	return e.hold.key
}

// look is a poll: what is due is decided, a trip is carried out, and what the store does not have is tried again.
func (r *modelRun) look() { r.lookFor("") }

// lookFor is look for a host that cancels the run with a code.
func (r *modelRun) lookFor(code watchdog.StopReason) {
	for first := true; ; first = false {
		recorded, trip := r.judge()
		if code != "" && trip == nil && r.running() {
			trip = &modelExcess{code: code}
		}
		if first && !recorded && trip == nil {
			r.tryPending()
		}
		if trip != nil {
			r.carryOut(trip)
		}
		if recorded {
			r.tryPending()
		}
		if trip == nil {
			return
		}
	}
}

func (r *modelRun) judge() (recorded bool, trip *modelExcess) {
	if r.running() && r.outer != nil && !r.outer.running() {
		r.endWith(r.outer.cause)
	}
	if !r.running() {
		return false, nil
	}
	for {
		r.countPauses()
		r.resetLadders()
		recorded = recorded || r.due
		r.due = false
		e := r.exceeded()
		switch {
		case e != nil && r.asks(e) == watchdog.DirectiveCancel:
			return recorded, e
		case e != nil:
			r.ask(e)
		case !r.warnOrWrapUp():
			return recorded, nil
		}
		recorded = true
	}
}

// warnOrWrapUp gives what the wall clock has reached, once.
func (r *modelRun) warnOrWrapUp() bool {
	switch {
	case r.reached(r.warned, time.Duration(watchdog.DefaultWarnAt*float64(r.allowed()))):
		r.warned = true
		r.askOnce(modelAsk{"warning", r.allowed()})
	case r.budget.Reserve > 0 && r.reached(r.wrapped, r.allowed()-r.budget.Reserve):
		r.wrapped = true
		r.askOnce(modelAsk{"wrap_up", r.allowed()})
		r.mail = append(r.mail, modelMail{watchdog.DirectiveWrapUp, watchdog.WallClockExceeded, "", 1})
	default:
		return false
	}
	return true
}

func (r *modelRun) reached(given bool, at time.Duration) bool {
	return !given && r.allowed() != watchdog.NoLimit && r.worked() >= at
}

func (r *modelRun) askOnce(ask modelAsk) {
	r.record(&modelFact{kind: ask.kind, key: ask, apply: func(w *modelWindow) { w.asked[ask] = true }})
}

// ask gives a directive that is no cancel: the limit begins anew, on the next rung.
func (r *modelRun) ask(e *modelExcess) {
	d := &modelDirective{limit: e.limit, hold: e.holdKey(), rung: e.rung + 1}
	kind := r.asks(e)
	r.mail = append(r.mail, modelMail{kind, e.reason(), d.hold, d.rung})
	r.record(
		&modelFact{kind: "warning"},
		&modelFact{kind: string(kind), apply: func(w *modelWindow) { w.directives = append(w.directives, d) }},
	)
	r.given = append(r.given, modelGiven{d, r.elapsed})
	on := modelRung{d.rung, r.elapsed}
	switch e.limit {
	case "idle":
		r.idle = on
	case "no_progress":
		r.noProgress = on
	default:
		e.hold.rung = on
	}
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

// over takes the directives that do not count any more, and has that recorded.
func (r *modelRun) over(done func(g modelGiven) bool) (ended []*modelDirective) {
	r.given = slices.DeleteFunc(r.given, func(g modelGiven) bool {
		if done(g) {
			ended = append(ended, g.modelDirective)
			return true
		}
		return false
	})
	return ended
}

func endAll(directives []*modelDirective) func(w *modelWindow) {
	return func(*modelWindow) {
		for _, d := range directives {
			d.over = true
		}
	}
}

func (r *modelRun) resetLadders() {
	if !r.progressed {
		return
	}
	if ended := r.over(func(g modelGiven) bool { return g.at <= r.progress }); len(ended) > 0 {
		r.record(&modelFact{kind: "progress", apply: endAll(ended)})
		r.due = true
	}
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
	own := &modelEnd{code: e.reason(), hold: e.holdKey(), rung: e.rung + 1, at: r.host.now()}
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

func (r *modelRun) extendTo(extended time.Duration) {
	if extended > r.extended {
		r.extended, r.warned, r.wrapped = extended, false, false
	}
}

func (r *modelRun) endStopped(stop *modelEnd) {
	r.stop = stop
	r.endWith(stop.code)
}

func (r *modelRun) endWith(cause error) {
	r.resetLadders()
	r.cause = cause
	for _, h := range r.holds {
		h.closed = true
		h.outer.release()
	}
	r.holds = nil
}

// polled is what a host that polls is given: the cancel last.
func (r *modelRun) polled() []modelMail {
	mail := r.mail
	if r.stop != nil && !r.mailed {
		r.mailed = true
		mail = append(mail, modelMail{watchdog.DirectiveCancel, r.stop.code, r.stop.hold, r.stop.rung})
	}
	r.mail = nil
	return mail
}

// pass lets time pass.
func (r *modelRun) pass(d time.Duration) { r.elapsed += d }

func (r *modelRun) heeds() bool {
	return r.budget.Idle != 0 || r.budget.NoProgress != 0 || len(r.budget.Ladders.Hold) > 0
}

// signal is a sign of life of the run and of those around it.
func (r *modelRun) signal(progress bool) {
	for ; r != nil; r = r.outer {
		r.sign(progress)
	}
}

func (r *modelRun) sign(progress bool) {
	if !r.running() || !r.heeds() {
		return
	}
	if !r.signalled {
		r.signalled, r.first = true, r.elapsed
	}
	r.active = r.elapsed
	if progress {
		r.progressed, r.progress = true, r.elapsed
	}
}

func (r *modelRun) digest(digest string) (first bool) {
	first, asked := true, false
	for ; r != nil; r = r.outer {
		if !r.heeds() {
			continue
		}
		fresh := !r.digests[digest]
		r.digests[digest] = true
		r.sign(fresh)
		if !asked {
			first, asked = fresh, true
		}
	}
	return first
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
	if h := r.held(key); h != nil {
		if !h.restored {
			return nil, watchdog.ErrHeld
		}
		h.restored = false
		return h, nil
	}
	h := &modelHold{
		run: r, key: key, opened: r.elapsed, limit: limit.Cap, rung: modelRung{r.rungOf("hold", key), r.elapsed},
	}
	if limit.PausesWallClock {
		h.pause = r.pause(key, false, limit.Cap)
	}
	r.holds = append(r.holds, h)
	r.settle()
	if around := r.outer; around != nil && around.running() {
		h.outer = &modelHold{run: around, key: key, inside: true, opened: around.elapsed, limit: watchdog.NoLimit}
		if limit.PausesWallClock {
			around.takeLeft(key)
			h.outer.pause = around.pause(key, true, limit.Cap)
		}
		around.holds = append(around.holds, h.outer)
		around.settle()
	}
	return h, nil
}

func (r *modelRun) held(key string) *modelHold {
	for _, h := range r.holds {
		if h.key == key && !h.inside {
			return h
		}
	}
	return nil
}

// rungOf is where the directives that were given leave a ladder.
func (r *modelRun) rungOf(limit, hold string) (rung int) {
	for _, g := range r.given {
		if g.limit == limit && g.hold == hold {
			rung = max(rung, g.rung)
		}
	}
	return rung
}

// settle is a look after a change, at a moment at which nothing can be exceeded.
func (r *modelRun) settle() {
	if r.due {
		r.due = false
		r.tryPending()
	}
}

// pause is a hold's that stops the wall clock: it counts once the store has it, from now on.
func (r *modelRun) pause(key string, layer bool, limit time.Duration) *modelPause {
	p := &modelPause{key: key, layer: layer, opened: r.elapsed.Truncate(time.Microsecond), limit: limit}
	e := r.record(&modelFact{kind: "hold", apply: func(w *modelWindow) { w.pauses = append(w.pauses, p) }})
	r.pausing = append(r.pausing, modelPausing{entry: e, of: p})
	r.due = true
	return p
}

// unpause ends it, and the ladder of its hold.
func (r *modelRun) unpause(p *modelPause, ended []*modelDirective) {
	if p == nil && len(ended) == 0 {
		return
	}
	at := r.elapsed.Truncate(time.Microsecond)
	f := &modelFact{kind: "release", apply: endAll(ended)}
	if p != nil {
		f.key = [2]any{"release", p}
		f.apply = func(w *modelWindow) {
			endAll(ended)(w)
			p.closed, p.released = true, at
		}
	}
	e := r.record(f)
	if p != nil {
		r.pausing = append(r.pausing, modelPausing{entry: e, of: p, ends: true, at: at})
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

// countPauses lets what the store has by now count.
func (r *modelRun) countPauses() {
	if len(r.pausing) == 0 {
		return
	}
	waits := map[*modelPause]bool{}
	r.pausing = slices.DeleteFunc(r.pausing, func(p modelPausing) bool {
		if !p.entry.stored && !p.entry.dropped || waits[p.of] {
			waits[p.of] = true
			return false
		}
		switch known := r.known(p.of); {
		case p.entry.dropped:
		case !p.ends && known == nil:
			r.pauses = append(r.pauses, modelKnown{p.of, modelPause{opened: p.of.opened, limit: p.of.limit}})
		case p.ends && known != nil && !known.closed:
			known.closed, known.released = true, p.at
		}
		return true
	})
}

// closed reports whether the store knows that a hold which another process left open was closed by that.
func (n modelNews) closed(h *modelHold) bool {
	if h == nil || !h.restored {
		return false
	}
	i := slices.Index(n.of, h.pause)
	return i >= 0 && n.pauses[i].closed
}

// learnPauses counts what the store knows, and lets go of holds that the process which opened them has closed.
func (r *modelRun) learnPauses(news modelNews) {
	for i, p := range news.pauses {
		known := r.known(news.of[i])
		if known == nil {
			r.pauses = append(r.pauses, modelKnown{news.of[i], p})
			continue
		}
		if p.closed && (!known.closed || known.released != p.released) {
			known.closed, known.released = true, p.released
			r.letGo(news.of[i])
		}
	}
}

func (r *modelRun) letGo(p *modelPause) {
	before := len(r.holds)
	r.holds = slices.DeleteFunc(r.holds, func(h *modelHold) bool {
		h.closed = h.closed || h.restored && h.pause == p
		return h.closed
	})
	if len(r.holds) == 0 && before > 0 {
		r.released = r.elapsed
	}
}

// takeLeft ends the pauses of layers of a process that is gone, whose hold is opened again.
func (r *modelRun) takeLeft(key string) {
	r.leftOpen = slices.DeleteFunc(r.leftOpen, func(p *modelPause) bool {
		if p.key == key {
			r.unpause(p, nil)
		}
		return p.key == key
	})
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
	if len(r.holds) == 0 {
		r.released = r.elapsed
	}
	var ended []*modelDirective
	if !h.inside {
		ended = r.over(func(g modelGiven) bool { return g.limit == "hold" && g.hold == h.key })
	}
	r.unpause(h.pause, ended)
	r.settle()
	h.outer.release()
	return true
}

func (r *modelRun) extend(d time.Duration) error {
	if r.outer != nil {
		r.look()
		own, around := r.left(), r.outer.remaining()
		if r.running() && own != watchdog.NoLimit && around != watchdog.NoLimit {
			d = min(d, around-own)
			if d < time.Microsecond {
				return watchdog.ErrInvalid
			}
		}
	}
	d = d.Truncate(time.Microsecond)
	r.look()
	switch {
	case !r.running():
		return watchdog.ErrEnded
	case r.allowed() == watchdog.NoLimit:
		return watchdog.ErrInvalid
	}
	before := r.extended
	event := &modelFact{kind: "extend", apply: func(w *modelWindow) { w.extended += d }}
	known, kept, err := r.transact(func(known modelNews) *modelFact {
		if known.over() {
			return nil
		}
		return event
	})
	if err != nil {
		return err
	}
	if kept != nil {
		known.extended = max(known.extended, before+d)
	}
	if r.adopt(known) != nil {
		return watchdog.ErrEnded
	}
	return nil
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

func (r *modelRun) cancel(code watchdog.StopReason) (watchdog.StopReason, error) {
	r.lookFor(code)
	if r.stop == nil {
		return "", watchdog.ErrEnded
	}
	return r.stop.code, nil
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

// layer is a run inside, which begins now whatever ran before.
func (r *modelRun) layer(budget watchdog.Budget) (*modelRun, error) {
	r.look()
	left := r.remaining()
	if !r.running() || left <= budget.Reserve {
		return nil, watchdog.ErrEnded
	}
	budget.WallClock = min(limitOf(budget.WallClock), left)
	return &modelRun{
		host: r.host, outer: r, budget: budget, digests: map[string]bool{},
		window: newModelWindow(r.host.now()), elapsed: r.host.clock.Now().Sub(r.host.now()),
		attached: r.host.clock.Now().Sub(r.host.now()),
	}, nil
}

// close lets the run go. It reports whether the store has everything.
func (r *modelRun) close() bool {
	if r.judgeParent(); r.running() {
		r.endWith(watchdog.ErrClosed)
	}
	r.tryPending()
	return len(r.pending) == 0
}

func (r *modelRun) judgeParent() {
	if r.running() && r.outer != nil && !r.outer.running() {
		r.endWith(r.outer.cause)
	}
}

// takeUp is a process that attaches to the window.
func takeUp(host *modelHost, w *modelWindow, budget watchdog.Budget) *modelRun {
	at := max(host.clock.Now().Sub(w.start), 0)
	r := &modelRun{host: host, window: w, budget: budget, digests: map[string]bool{}, elapsed: at, attached: at}
	r.extended = w.extended
	r.warned, r.wrapped = w.asked[modelAsk{"warning", r.allowed()}], w.asked[modelAsk{"wrap_up", r.allowed()}]
	if stop := w.stop(); stop != nil {
		r.endStopped(stop)
		return r
	}
	for _, d := range w.directives {
		if !d.over {
			r.given = append(r.given, modelGiven{d, at})
		}
	}
	r.idle, r.noProgress = modelRung{r.rungOf("idle", ""), at}, modelRung{r.rungOf("no_progress", ""), at}
	r.restoreHolds()
	return r
}

// restoreHolds takes up what is open in the store. Those of layers stop the wall clock and hold nothing.
func (r *modelRun) restoreHolds() {
	news := r.read()
	order := make([]int, len(news.of))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(news.pauses[a].opened, news.pauses[b].opened) })
	r.learnPauses(news)
	for _, i := range order {
		switch p := news.of[i]; {
		case p.closed:
		case p.layer:
			r.leftOpen = append(r.leftOpen, p)
		case r.held(p.key) == nil:
			r.holds = append(r.holds, &modelHold{
				run: r, key: p.key, opened: p.opened, limit: p.limit, pause: p, restored: true,
				rung: modelRung{r.rungOf("hold", p.key), p.opened},
			})
		}
	}
}

// edges are how long it takes until something is exceeded or due.
func (r *modelRun) edges() (all []time.Duration) {
	add := func(d time.Duration) {
		if d > 0 && d < math.MaxInt64/2 {
			all = append(all, d)
		}
	}
	if allowed := r.allowed(); allowed != watchdog.NoLimit {
		add(allowed - r.worked())
		add(allowed - r.budget.Reserve - r.worked())
	}
	add(limitOf(r.budget.Safety) - r.elapsed + r.attached)
	add(limitOf(r.budget.Idle) - r.elapsed + max(r.attached, r.active, r.released, r.idle.at))
	add(limitOf(r.budget.NoProgress) - r.elapsed + max(r.attached, r.progress, r.released, r.noProgress.at))
	for _, h := range r.holds {
		add(h.limit - r.elapsed + max(h.opened, h.rung.at))
	}
	return all
}
