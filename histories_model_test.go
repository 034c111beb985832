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
	// A modelOpener is an attach that opened a pause. Nobody knows of one that is elsewhere whether it is over.
	modelOpener struct{ over, elsewhere bool }
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
		opener           *modelOpener
		opened, released time.Duration
		limit            time.Duration
		closed           bool
		closedByOpener   bool
	}
)

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

func (n modelNews) over() bool { return n.complete || n.stop != nil }

// A modelHost is a process and its way to the store.
type modelHost struct {
	clock         *hostClock
	fault         fault
	transactional bool
}

func (h *modelHost) now() time.Time { return h.clock.Now().Truncate(time.Microsecond) }

func (h *modelHost) future(start time.Time) bool {
	return start.Sub(h.clock.Now()) > watchdog.StartSkew
}

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
	changed                 time.Duration // the holds
	heeding                 bool          // whatever the budget says
	process                 *process
	idle, noProgress        modelRung
	holds                   []*modelHold // open, in the order of their opening
	pauses                  []modelKnown
	given                   []modelGiven
	pending                 []*modelEntry
	ends                    map[*modelPause]*modelEntry // of its own pauses
	due                     bool                        // there is something to record that nobody tried
	digests                 map[string]bool
	mail                    []modelMail
	mailed                  bool // that the run was cancelled

	opener   *modelOpener
	leftOpen []*modelLeft

	cause    error // nil while it runs
	stop     *modelEnd
	complete bool // and not only the run around
}

type (
	// A modelRung says of a last rung in which stretch it came.
	modelRung struct {
		rung  int
		at    time.Duration
		last  bool
		since time.Duration
	}
	modelHold struct {
		run           *modelRun
		key           string
		inside        bool // opened in a layer
		opened, limit time.Duration
		idle          time.Duration // 0 for any
		rung          modelRung
		closed        bool
		pause         *modelPause
		left          bool // another process opened it
		beside        bool // and one with its key was opened after it
		outer         *modelHold
	}
	// A modelLeft pause is one that another process opened and that is open as far as this one knows.
	modelLeft struct {
		*modelPause
		hold *modelHold // nil if it holds nothing
	}
	// A modelKnown pause is one as this process sees it. What becomes of its own it knows better than the store.
	modelKnown struct {
		of *modelPause
		modelPause
		own bool
	}
	modelGiven struct {
		*modelDirective
		at time.Duration
	}
	modelEntry struct {
		facts         []*modelFact
		stored, tried bool
		opens, closes *modelPause
	}
	modelMail struct {
		kind   watchdog.DirectiveKind
		reason watchdog.StopReason
		hold   string
		rung   int
	}
	// A modelExcess is a limit that was exceeded, and since when.
	modelExcess struct {
		limit   string
		since   time.Duration
		stretch time.Duration // began then
		rung    int           // on which it is
		last    bool
		asks    watchdog.DirectiveKind
		hold    *modelHold
		code    watchdog.StopReason // of the host's
	}
)

func (r *modelRun) running() bool { return r.cause == nil }

// look is a poll: what is due is decided, a trip is carried out, and what the store does not have is tried again.
func (r *modelRun) look() { r.lookFor("") }

// lookFor is look for a host that cancels the run with a code.
func (r *modelRun) lookFor(code watchdog.StopReason) {
	for first := true; ; first = false {
		recorded, trip := r.judge()
		if code != "" && trip == nil && r.running() {
			trip = &modelExcess{code: code, rung: 1, asks: watchdog.DirectiveCancel}
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
	if r.judgeParent(); !r.running() {
		return false, nil
	}
	for {
		r.resetLadders()
		recorded = recorded || r.due
		r.due = false
		e := r.exceeded()
		switch {
		case e != nil && e.limit == "hold" && e.hold.beside: // its opener minds its cap
			r.letGo(e.hold.pause)
			continue
		case e != nil && e.asks == watchdog.DirectiveCancel:
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

func (r *modelRun) askOnce(ask modelAsk) {
	r.record(&modelFact{kind: ask.kind, key: ask, apply: func(w *modelWindow) { w.asked[ask] = true }})
}

// ask gives a directive that is no cancel: the limit begins anew, on the next rung.
func (r *modelRun) ask(e *modelExcess) {
	d := &modelDirective{limit: e.limit, rung: e.rung}
	if e.limit == "hold" {
		d.hold = e.holdKey()
	}
	r.mail = append(r.mail, modelMail{e.asks, e.reason(), e.holdKey(), d.rung})
	var before []*modelDirective // that this one takes the place of
	if e.last {
		before = r.over(func(g modelGiven) bool { return g.limit == d.limit && g.hold == d.hold && g.rung >= d.rung })
	}
	r.record(
		&modelFact{kind: "warning"},
		&modelFact{kind: string(e.asks), apply: func(w *modelWindow) {
			endAll(before)(w)
			w.directives = append(w.directives, d)
		}},
	)
	r.given = append(r.given, modelGiven{d, r.elapsed})
	on := modelRung{d.rung, r.elapsed, e.last, e.stretch}
	switch e.limit {
	case "idle":
		r.idle = on
	case "no_progress":
		r.noProgress = on
	default:
		e.hold.rung = on
	}
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
	if r.outer == nil {
		r.opener.over = true
	}
	for _, h := range r.holds {
		h.closed = true
		h.outer.release()
	}
	r.holds = nil
}

func limitOf(d time.Duration) time.Duration {
	if d == 0 {
		return watchdog.NoLimit
	}
	return d
}

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

func (r *modelRun) paused(now time.Duration) time.Duration { return pausedBefore(r.standstill(), now) }

// standstill is when the wall clock does not run: in the run's own pauses, and in those of the runs around, as their
// times are seen from inside.
func (r *modelRun) standstill() (all []modelPause) {
	for _, p := range r.pauses {
		all = append(all, p.modelPause)
	}
	if r.outer == nil {
		return all
	}
	began := r.outer.elapsed - r.elapsed
	for _, p := range r.outer.standstill() {
		end := p.opened + p.limit - began
		p.opened, p.released = max(p.opened-began, r.attached), p.released-began
		p.limit = end - p.opened
		all = append(all, p)
	}
	return all
}

func pausedIn(known []modelKnown, now time.Duration) time.Duration {
	if len(known) == 0 {
		return 0
	}
	var all []modelPause
	for _, p := range known {
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
	more := func(limit string, stretch, from, allowed time.Duration, on modelRung, hold *modelHold) {
		over := on.last && (limit == "hold" || on.since == stretch) // nothing follows the last rung in a stretch
		from = max(from, on.at)
		if over || allowed == watchdog.NoLimit || r.elapsed-from <= allowed {
			return
		}
		e := &modelExcess{limit: limit, since: from + allowed + 1, stretch: stretch, hold: hold}
		r.climb(e, on)
		all = append(all, e)
	}
	if allowed := r.allowed(); allowed != watchdog.NoLimit && r.worked() > allowed {
		e := &modelExcess{limit: "wall_clock", since: r.workedSince(allowed + 1)}
		r.climb(e, modelRung{})
		all = append(all, e)
	}
	more("safety", 0, r.attached, limitOf(r.budget.Safety), modelRung{}, nil)
	for _, h := range r.holds {
		more("hold", 0, h.opened, h.limit, h.rung, h)
	}
	r.silences(more)
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, func(a, b *modelExcess) int { return cmp.Compare(a.since, b.since) })
}

// silences are the limits that begin again with signs: those of the holds if any are open.
func (r *modelRun) silences(
	more func(limit string, stretch, from, allowed time.Duration, on modelRung, hold *modelHold),
) {
	if len(r.holds) > 0 {
		if h := r.quietest(); h != nil {
			stretch := max(r.attached, r.active, r.changed)
			more("idle", stretch, stretch, h.idle, r.idle, h)
		}
		return
	}
	from, idle, noProgress := r.attached, limitOf(r.budget.Idle), limitOf(r.budget.NoProgress)
	switch {
	case r.budget.FromFirstSign && r.signalled:
		from = r.first
	case r.budget.FromFirstSign:
		idle, noProgress = limitOf(r.budget.FirstSign), watchdog.NoLimit
	}
	stuck, silent := max(from, r.progress), max(from, r.active, r.changed)
	more("no_progress", stuck, max(stuck, r.changed), noProgress, r.noProgress, nil)
	more("idle", silent, silent, idle, r.idle, nil)
}

// climb puts a trip on its ladder. A wait at the end of that comes again; after any other end comes a cancel.
func (r *modelRun) climb(e *modelExcess, on modelRung) {
	ladder := map[string][]watchdog.DirectiveKind{
		"idle": r.budget.Ladders.Idle, "no_progress": r.budget.Ladders.NoProgress, "hold": r.budget.Ladders.Hold,
	}[e.limit]
	if n := len(ladder); n == 0 || ladder[n-1] != watchdog.DirectiveWait {
		ladder = append(slices.Clone(ladder), watchdog.DirectiveCancel)
	}
	e.rung = min(r.stands(on)+1, len(ladder))
	e.asks, e.last = ladder[e.rung-1], e.rung == len(ladder)
}

// quietest is the open hold that allows the longest silence, nil if one allows any.
func (r *modelRun) quietest() (longest *modelHold) {
	for _, h := range r.holds {
		switch {
		case h.idle == 0:
			return nil
		case longest == nil || h.idle > longest.idle:
			longest = h
		}
	}
	return longest
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

func (r *modelRun) reached(given bool, at time.Duration) bool {
	return !given && r.allowed() != watchdog.NoLimit && r.worked() >= at
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
	silent := max(r.attached, r.active, r.changed, r.idle.at) - r.elapsed
	add(limitOf(r.budget.Idle) + silent)
	if h := r.quietest(); h != nil {
		add(h.idle + silent)
	}
	add(limitOf(r.budget.NoProgress) - r.elapsed + max(r.attached, r.progress, r.changed, r.noProgress.at))
	for _, h := range r.holds {
		add(h.limit - r.elapsed + max(h.opened, h.rung.at))
	}
	return all
}
