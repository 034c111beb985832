package watchdog_test

import (
	"time"

	"github.com/seed62658d38/watchdog"
)

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
	return r.heeding || r.budget.Idle != 0 || r.budget.NoProgress != 0 || len(r.budget.Ladders.Hold) > 0
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

// rungOf is where the directives that were given leave a ladder.
func (r *modelRun) rungOf(limit, hold string) (rung int) {
	for _, g := range r.given {
		if g.limit == limit && g.hold == hold {
			rung = max(rung, g.rung)
		}
	}
	return rung
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
	known, kept, err := r.transact(nil, func(known modelNews) *modelFact {
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

func (r *modelRun) cancel(code watchdog.StopReason) (watchdog.StopReason, error) {
	r.lookFor(code)
	if r.stop == nil {
		return "", watchdog.ErrEnded
	}
	return r.stop.code, nil
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
		host: r.host, process: r.process, outer: r, budget: budget, digests: map[string]bool{},
		ends:   map[*modelPause]*modelEntry{},
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
func takeUp(p *process, w *modelWindow, budget watchdog.Budget) *modelRun {
	host := p.host
	at := max(host.clock.Now().Sub(w.start), 0)
	r := &modelRun{
		host: host, process: p, window: w, budget: budget, digests: map[string]bool{}, elapsed: at, attached: at,
		ends: map[*modelPause]*modelEntry{},
	}
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
	r.idle = modelRung{rung: r.rungOf("idle", ""), at: at}
	r.noProgress = modelRung{rung: r.rungOf("no_progress", ""), at: at}
	r.restoreHolds()
	return r
}
