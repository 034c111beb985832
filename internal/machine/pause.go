package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/pending"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// pauseClock has the wall clock stand still for a hold that was opened just now, and has that recorded. The pause is in
// whole microseconds as its event has it: what this process counts is what the store says.
func (n *Node) pauseClock(h *Hold, layer string, limit time.Duration) {
	p := &verdict.Pause{
		ID: record.EventID("", "", "", ""), Opened: n.now().Truncate(time.Microsecond),
		Cap: limit.Truncate(time.Microsecond),
	}
	m := n.Moment(n.tree.Room.now)
	e := laterEntry(record.EventHold, func() Event { return m.hold(h.id.Key, layer, p) })
	e.Opens = true
	n.record(e)
	h.pause, h.opening = p, &e.State
	n.stand(verdict.Signal{Kind: verdict.SignalPause, Key: p.ID, From: p.Opened, Length: p.Cap})
	n.seen.Signs.Pauses.TakeOver(p.ID)
}

// stand has the wall clock stand still from an instant on, or go on. The layers of a session do so with it: what is
// left of a layer is left of its run. A layer that stands still for a hold of its own has both pauses, which overlap.
// A layer's pause is one of the session, too, which does it for all.
func (n *Node) stand(s verdict.Signal) {
	n.take(signal(s))
	if n.outer == nil {
		for layer := n.kin.layers; layer != nil; layer = layer.kin.next {
			layer.standWith(n, s)
		}
	}
}

// standWith has a layer and those in it do what their session does at an instant of that: stand still, unless that is
// over by the beginning of the layer, or go on if it stands still.
func (n *Node) standWith(session *Node, s verdict.Signal) {
	own, began := s, n.began-session.began
	own.From -= began
	if s.Kind == verdict.SignalPause {
		end := verdict.Sum(s.From, s.Length) - began
		own.From = max(own.From, n.seen.Attached)
		if own.Length = end - own.From; own.Length > 0 {
			n.take(signal(own))
		}
	} else if _, paused := n.signs().Pauses.Find(s.Key); paused {
		own.From = max(own.From, n.seen.Attached) // it may have been over when the layer began
		n.take(signal(own))
		n.rest(n.now())
	}
	for layer := n.kin.layers; layer != nil; layer = layer.kin.next {
		layer.standWith(session, s)
	}
}

// recordRelease ends the pause of a hold that was closed just now, and has that recorded, if events tell of it.
func (n *Node) recordRelease(id verdict.HoldID, pause *verdict.Pause, opening *pending.State) {
	var replaced []string
	if n.more != nil {
		replaced = n.more.given.take(func(g *given) bool { return g.on.Limit == string(verdict.Hold) && g.hold == id })
	}
	if pause == nil && len(replaced) == 0 {
		return
	}
	m, elapsed, opened := n.Moment(n.tree.Room.now), n.now().Truncate(time.Microsecond), ""
	if pause != nil {
		opened = pause.ID
	}
	e := laterEntry(record.EventRelease, func() Event { return m.release(id.Key, opened, elapsed, replaced) })
	e.Closes, e.Opening = pause != nil, opening
	n.record(e)
	if pause != nil {
		n.stand(verdict.Signal{Kind: verdict.SignalUnpause, Key: opened, From: elapsed})
		n.seen.Signs.Pauses.TakeOver(opened)
	}
}

// learnPauses counts what the store has of the pauses of other processes, as it has it: otherwise a trip that yields to
// it would do so for ever. A hold whose own process has closed it is closed here, too, unless it was taken over.
func (n *Node) learnPauses(stored []verdict.Pause) {
	if len(stored) == 0 {
		return
	}
	signs := n.signs()
	for _, p := range signs.Pauses.News(stored) {
		if _, opened := signs.Pauses.Find(p.ID); !opened {
			n.stand(verdict.Signal{Kind: verdict.SignalPause, Key: p.ID, From: p.Opened, Length: p.Cap})
		}
		if !p.Closed {
			continue
		}
		n.stand(verdict.Signal{Kind: verdict.SignalUnpause, Key: p.ID, From: p.Released})
		for _, owner := range signs.Holds.Owners() {
			if h := owner.(*Hold); h.restored && h.pause.ID == p.ID {
				n.take(signal(verdict.Signal{Kind: verdict.SignalRelease, Key: h.id.Key, Serial: h.id.Serial}))
			}
		}
	}
}
