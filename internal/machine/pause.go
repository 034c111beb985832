package machine

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/pending"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// pauseClock has the wall clock stand still for a hold that was opened just now, and has that recorded. The pause is in
// whole microseconds as its event has it: what this process counts is what the store says.
func (n *Node) pauseClock(key, layer string, limit time.Duration) (*verdict.Pause, *pending.State) {
	p := &verdict.Pause{
		ID: record.EventID("", "", "", ""), Opened: n.now().Truncate(time.Microsecond),
		Cap: limit.Truncate(time.Microsecond),
	}
	at := n.tree.now.Wall
	e := n.record(&Entry{
		State: pending.State{Opens: true}, lost: lostEvent(record.EventHold),
		make: func() []Event { return []Event{n.holdEvent(at, key, layer, p)} },
	})
	n.take(signal(verdict.Signal{Kind: verdict.SignalPause, Key: p.ID, From: p.Opened, Length: p.Cap}))
	n.signs().Pauses.TakeOver(p.ID)
	n.pauseLayers(*p)
	return p, &e.State
}

// pauseLayers has the layers of a session stand still with it: what is left of a layer is left of its run. A layer that
// stands still for a hold of its own has both pauses, which overlap. A layer's pause is one of the session, too, which
// does it for all.
func (n *Node) pauseLayers(p verdict.Pause) {
	if n.outer == nil {
		n.each(func(layer *Node) { layer.pauseWith(p, n) })
	}
}

// pauseWith has a layer stand still with a run around it, unless the pause is over by its beginning.
func (n *Node) pauseWith(p verdict.Pause, around *Node) {
	began := n.began - around.began
	from, to := max(p.Opened-began, n.seen.Attached), verdict.Sum(p.Opened, p.Cap)-began
	if from < to {
		n.take(signal(verdict.Signal{Kind: verdict.SignalPause, Key: p.ID, From: from, Length: to - from}))
	}
}

// pauseWithRun has a layer that begins while the runs around it stand still do so, too. It goes by the session's
// pauses, which are released for all layers; those of the run around are beside them.
func (n *Node) pauseWithRun() {
	session := n.tree.session
	if session.seen.Signs == nil {
		return
	}
	for _, p := range session.seen.Signs.Pauses.Open(session.now()) {
		n.pauseWith(p, session)
	}
}

// releaseLayers ends a pause that layers have with their session, at an instant of that.
func (n *Node) releaseLayers(id string, at time.Duration) {
	if n.outer != nil {
		return
	}
	n.each(func(layer *Node) {
		if _, paused := layer.signs().Pauses.Find(id); paused {
			ended := max(at-(layer.began-n.began), layer.seen.Attached) // it may have been over when the layer began
			layer.take(signal(verdict.Signal{Kind: verdict.SignalUnpause, Key: id, From: ended}))
			layer.lookSoon()
		}
	})
}

// recordRelease ends the pause of a hold that was closed just now, and has that recorded, if events tell of it.
func (n *Node) recordRelease(id verdict.HoldID, pause *verdict.Pause, opening *pending.State) {
	var replaced []string
	if n.more != nil {
		replaced = n.more.takeGiven(func(g given) bool { return g.on.Limit == verdict.Hold && g.hold == id })
	}
	if pause == nil && len(replaced) == 0 {
		return
	}
	at, elapsed := n.tree.now.Wall, n.now().Truncate(time.Microsecond)
	n.record(&Entry{
		State: pending.State{Closes: pause != nil, Opening: opening}, lost: lostEvent(record.EventRelease),
		make: func() []Event { return []Event{n.releaseEvent(at, elapsed, id.Key, pause, replaced)} },
	})
	if pause != nil {
		n.take(signal(verdict.Signal{Kind: verdict.SignalUnpause, Key: pause.ID, From: elapsed}))
		n.signs().Pauses.TakeOver(pause.ID)
		n.releaseLayers(pause.ID, elapsed)
	}
}

// learnPauses counts what the store has of the pauses of other processes, as it has it: otherwise a trip that yields to
// it would do so for ever.
func (n *Node) learnPauses(stored []verdict.Pause) {
	if len(stored) == 0 {
		return
	}
	pauses := &n.signs().Pauses
	for _, p := range pauses.News(stored) {
		if _, opened := pauses.Find(p.ID); !opened {
			n.take(signal(verdict.Signal{Kind: verdict.SignalPause, Key: p.ID, From: p.Opened, Length: p.Cap}))
			n.pauseLayers(p)
		}
		if p.Closed {
			n.take(signal(verdict.Signal{Kind: verdict.SignalUnpause, Key: p.ID, From: p.Released}))
			n.releaseLayers(p.ID, p.Released)
			n.releaseRestored(p.ID)
		}
	}
}

// releaseRestored closes the hold of a pause here, which its own process has closed, unless it was taken over.
func (n *Node) releaseRestored(pause string) {
	for _, owner := range n.signs().Holds.Owners() {
		if h := owner.(*Hold); h.restored && h.pause.ID == pause {
			n.take(signal(verdict.Signal{Kind: verdict.SignalRelease, Key: h.id.Key, Serial: h.id.Serial}))
			h.closed = true
		}
	}
}

// takeLeft ends the pauses of a layer's hold with the key that a process left which is gone: the hold is opened again.
func (n *Node) takeLeft(key string) {
	if n.more == nil {
		return
	}
	n.more.left = slices.DeleteFunc(n.more.left, func(p fold.Pause) bool {
		if p.Hold == key {
			n.recordRelease(verdict.HoldID{Key: key}, &p.Pause, nil)
		}
		return p.Hold == key
	})
}
