package watchdog_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
)

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
