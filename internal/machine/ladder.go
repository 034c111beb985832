package machine

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A given directive stands on its ladder until there is progress. Progress, and the end of a hold, are recorded once
// they put a ladder back, so that the ladder survives a restart.
type given struct {
	id   string // of its event
	rung int
	on   fold.Key
	hold verdict.HoldID
	at   time.Duration
}

// noteGiven notes that a directive was given now. A wait that comes again on the last rung takes the place of the one
// before, whose ID is returned, so that a run that waits often keeps one.
func (n *Node) noteGiven(o *Notice) (replaces []string) {
	v := &o.Verdict
	if v.Directive == verdict.DirectWrapUp || v.Directive == verdict.DirectCancel {
		return nil
	}
	more, on := n.extras(), fold.KeyOf(v.Limit, v.Hold, o.Spend)
	if v.Last {
		replaces = more.takeGiven(func(g given) bool { return g.on == on && g.rung >= v.Rung })
	}
	more.given = append(more.given, given{
		id: o.ids[1], rung: v.Rung, on: on, hold: verdict.HoldID{Key: v.Hold, Serial: v.HoldSerial}, at: n.now(),
	})
	n.awaitProgress()
	return replaces
}

// awaitProgress has the next progress set the timer, if it puts a ladder back.
func (n *Node) awaitProgress() {
	if pulse := n.Pulse.Load(); pulse != nil {
		pulse.awaited.await(resets, n.more != nil && len(n.more.given) > 0)
	}
}

// awaitSign has the next sign set the timer that ends a stretch in which nothing more is asked.
func (n *Node) awaitSign(v verdict.Verdict) {
	switch pulse := n.Pulse.Load(); {
	case pulse == nil || !v.Last:
	case v.Limit == verdict.Idle:
		pulse.awaited.await(anySign, true)
	case v.Limit == verdict.NoProgress:
		pulse.awaited.await(someProgress, true)
	}
}

// resetLadders has it recorded that progress put the ladders back to their first rungs, once.
func (n *Node) resetLadders() {
	if n.more == nil || len(n.more.given) == 0 || n.seen.Signs == nil || !n.seen.Signs.Progressed {
		return
	}
	progress := n.seen.Signs.Progress
	reset := n.more.takeGiven(func(g given) bool { return g.at <= progress })
	n.awaitProgress()
	if len(reset) > 0 {
		at := n.tree.now.Wall
		n.record(&Entry{
			lost: lostEvent(record.EventProgress), make: func() []Event { return []Event{n.progressEvent(at, reset)} },
		})
	}
}

// rememberProgress has the last progress of a run that ends recorded.
func (n *Node) rememberProgress() {
	if n.more != nil && len(n.more.given) > 0 {
		n.takePulse()
		n.resetLadders()
	}
}

// takeGiven removes the directives that do not count any more, and returns the IDs of their events.
func (m *more) takeGiven(done func(given) bool) (ids []string) {
	m.given = slices.DeleteFunc(m.given, func(g given) bool {
		if done(g) {
			ids = append(ids, g.id)
			return true
		}
		return false
	})
	return ids
}

// restoreLadders puts the ladders where the window's events say that they stand.
func (n *Node) restoreLadders(found *fold.Window) {
	for id, d := range found.Standing() {
		more := n.extras()
		more.given = append(more.given, given{
			id: id, rung: d.Rung, on: d.On, hold: verdict.HoldID{Key: d.On.Of}, at: n.seen.Attached,
		})
	}
	if n.more == nil {
		return
	}
	n.awaitProgress()
	for _, limit := range [...]verdict.Limit{verdict.Idle, verdict.NoProgress} {
		if rung := n.more.rungOf(fold.Key{Limit: limit}); rung > 0 {
			n.take(signal(verdict.Signal{Kind: verdict.SignalRung, Key: string(limit), Rung: rung}))
		}
	}
}

// rungOf is where a ladder stands.
func (m *more) rungOf(on fold.Key) (rung int) {
	if m == nil {
		return 0
	}
	for _, g := range m.given {
		if g.on == on {
			rung = max(rung, g.rung)
		}
	}
	return rung
}
