package machine

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// look judges the run at this moment, and notes when that has to be done again.
func (n *Node) look() {
	n.endWithOuter()
	switch {
	case n.phase != Running:
		return
	case n.Disabled:
		n.rest(verdict.Never)
		return
	}
	n.takePulse(&n.tree.Room.now) // once: a sign that comes meanwhile is later than this instant
	now := n.now()
	n.seen.Rang(n.Limits, now-n.tree.Room.now.Late, now)
	for {
		n.resetLadders()
		v := verdict.Judge(*n.Limits, n.seen, now)
		if v.Action == verdict.Continue {
			n.rest(v.Next)
			return
		}
		if n.lapses(&v) {
			continue
		}
		if v.Action == verdict.Cancel && !n.ObserveOnly {
			n.decide(v, record.LimitReason(string(v.Limit)))
			return
		}
		n.tell(v, record.LimitReason(string(v.Limit)))
		n.seen.Apply(v, now)
		n.Pulse.Load().awaitEnd(&v)
	}
}

// tell decides on a warning or a directive, and on the work that it ends.
func (n *Node) tell(v verdict.Verdict, reason string) {
	m := n.Moment(n.tree.Room.now)
	o := &Notice{Verdict: v, Note: n.LastNote(), At: event.Truncate(m.At), Spend: spendOf(n.Account, &v)}
	e := &Entry{Notice: o, make: func() []event.Event { return m.events(o) }}
	if o.Directive() {
		one, other := record.EventID("", "", "", ""), record.EventID("", "", "", "")
		o.Reason, o.ids = reason, [2]string{min(one, other), max(one, other)}
		if o.onLadder() {
			o.replaces = n.extras().given.add(given{
				id: o.ids[1], rung: v.Rung, on: fold.KeyOf(v.Limit, v.Hold, o.Spend), at: n.now(),
			}, v.Last)
			n.Pulse.Load().awaitReset(true)
		}
	} else if o.Spend == nil {
		o.Remaining = verdict.Remaining(*n.Limits, n.seen, n.now())
	}
	n.record(e)
	if o.begins() && !n.ObserveOnly {
		n.tree.emit(Effect{Kind: Again, Node: n, Entry: e})
	}
}

// resetLadders has it recorded that progress put the ladders back to their first rungs, once.
func (n *Node) resetLadders() {
	if n.more == nil || len(n.more.given) == 0 || n.seen.Signs == nil || !n.seen.Signs.Progressed {
		return
	}
	reset := n.more.given.take(func(g *given) bool { return g.at <= n.seen.Signs.Progress })
	n.Pulse.Load().awaitReset(len(n.more.given) > 0)
	if len(reset) > 0 {
		m := n.Moment(n.tree.Room.now)
		n.record(laterEntry(event.Progress, func() event.Event { return m.progress(reset) }))
	}
}

func (n *Node) record(e *Entry) {
	n.Draw()
	n.Pending.Put(e)
	kind := Record
	if n.tree.Room.ending {
		kind = Leave
	}
	n.tree.emit(Effect{Kind: kind, Node: n, Entry: e})
}

// A given directive stands on its ladder until there is progress. Progress, and the end of a hold, are recorded once
// they put a ladder back, so that the ladder survives a restart.
type given struct {
	id   string // of its event
	rung int
	on   fold.Key
	at   time.Duration
}

// standing are the directives that stand on the ladders of a run.
type standing []given

// add notes a directive. A wait that comes again on the last rung takes the place of the one before, whose ID is
// returned, so that a run that waits often keeps one.
func (s *standing) add(g given, last bool) (replaces []string) {
	if last {
		replaces = s.take(func(old *given) bool { return old.on == g.on && old.rung >= g.rung })
	}
	*s = append(*s, g)
	return replaces
}

// take removes the directives that do not count any more, and returns the IDs of their events.
func (s *standing) take(done func(*given) bool) (ids []string) {
	*s = slices.DeleteFunc(*s, func(g given) bool {
		if done(&g) {
			ids = append(ids, g.id)
			return true
		}
		return false
	})
	return ids
}

func (s standing) rungOf(on fold.Key) (rung int) {
	for i := range s {
		if s[i].on == on {
			rung = max(rung, s[i].rung)
		}
	}
	return rung
}
