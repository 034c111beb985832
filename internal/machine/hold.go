package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Hold is a stretch in which silence is expected.
type Hold struct {
	id     verdict.HoldID
	closed bool
	// pause is how it stops the wall clock, nil if it does not.
	pause   *verdict.Pause
	opening *State // of the pause; nil if another process opened it
	// restored tells that a process which is gone opened it, and nobody has taken it over.
	restored bool
	outer    *Hold // the same on the run around a layer
}

// Closed reports whether it was closed.
func (h *Hold) Closed() bool { return h.closed }

// openHold opens a hold on its run and on those around it. If a process that is gone left a hold with the key open, it
// is that one.
func (n *Node) openHold(in *Input) {
	open, limits := n.signs().Holds.Find(in.ID), in.Limits
	in.Held = open != nil
	if in.Held && !open.Owner.(*Hold).restored {
		return
	}
	if limits.Idle == verdict.Never || n.Disabled {
		limits.Idle = 0
	} else if limits.Idle > 0 {
		n.Heed()
	}
	if in.Held {
		in.Hold = open.Owner.(*Hold)
		in.Hold.restored = false
		n.seen.Signs.Pauses.TakeOver(in.Hold.pause.ID)
		n.take(verdict.Signal{
			Kind: verdict.SignalTakeOver, Key: in.ID.Key, Serial: in.ID.Serial, Idle: limits.Idle,
		})
	} else {
		in.Hold = &Hold{id: in.ID}
		n.hold(in.Hold, limits)
		if in.Pauses {
			n.pauseClock(in.Hold, "", limits.Cap)
		}
		n.openAround(in)
	}
	n.look()
}

// openAround opens a hold on each of the runs around a layer that have not ended. Each is a hold of its own, whatever
// the others are called, without a cap and with any silence allowed, because it ends with the one inside.
func (n *Node) openAround(in *Input) {
	key, inside := n.Run+"/"+in.ID.Key, in.Hold
	if in.ID.Key == "" {
		key = ""
	}
	for layer, around := n, n.outer; around != nil; layer, around = around, around.outer {
		inside.outer = &Hold{}
		inside = inside.outer
		if around.look(); around.phase == Over {
			continue
		}
		inside.id = verdict.HoldID{Key: key, Serial: around.signs().Holds.NextSerial()}
		around.hold(inside, verdict.HoldLimits{Cap: verdict.Never})
		if in.Pauses {
			for _, left := range around.more.takeLeft(key) { // by a process that is gone: the hold is opened again
				around.recordRelease(verdict.HoldID{Key: key}, &left.Pause, nil)
			}
			around.pauseClock(inside, layer.Run, in.Limits.Cap)
		}
		around.look()
	}
}

func (n *Node) hold(h *Hold, limits verdict.HoldLimits) {
	s := verdict.Signal{
		Kind: verdict.SignalHold, Key: h.id.Key, Serial: h.id.Serial, Length: limits.Cap, Idle: limits.Idle,
	}
	if h.id.Serial == 0 {
		s.Rung = n.more.rungOf(fold.KeyOf(verdict.Hold, h.id.Key, nil))
	}
	n.take(s)
	n.seen.Signs.Holds.Find(h.id).Owner = h
}

// release closes the hold, here and on the runs around, and reports whether it was open. It does not wait for a stop
// that is being recorded: if the run goes on after all, the hold is closed.
func (n *Node) release(h *Hold) (open bool) {
	for ; h != nil && !h.closed; h, n = h.outer, n.outer {
		open = true
		if n.look(); n.phase != Over {
			n.closeHold(h)
			n.look()
		}
	}
	return open
}

func (n *Node) closeHold(h *Hold) {
	h.closed = true
	n.take(verdict.Signal{Kind: verdict.SignalRelease, Key: h.id.Key, Serial: h.id.Serial})
	n.recordRelease(h.id, h.pause, h.opening)
}

// closeHolds closes the holds of a run that has ended, here and on the runs around, so that nothing of them is kept.
func (n *Node) closeHolds() {
	if n.seen.Signs == nil || n.seen.Signs.Holds == nil {
		return
	}
	for _, owner := range n.seen.Signs.Holds.Owners() {
		h := owner.(*Hold)
		h.closed = true
		for around, outer := n.outer, h.outer; outer != nil && !outer.closed; around, outer = around.outer, outer.outer {
			if around.phase == Over { // before the hold was opened, while the end of a layer inside was recorded
				continue
			}
			around.closeHold(outer)
			around.rest(around.now())
		}
	}
	n.seen.Signs.CloseAll(n.now())
}

// leftOpen is the pause of the hold whose cap was exceeded, if another process opened it and nobody took it over: that
// process may live and have closed it.
func leftOpen(s *verdict.Signs, v *verdict.Verdict) (pause string) {
	if v.Limit != verdict.Hold {
		return ""
	}
	open := s.Holds.Find(verdict.HoldID{Key: v.Hold, Serial: v.HoldSerial})
	if open == nil {
		return ""
	}
	if h := open.Owner.(*Hold); h.restored {
		return h.pause.ID
	}
	return ""
}

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
	n.take(s)
	if n.outer == nil {
		for layer := n.kin.layers; layer != nil; layer = layer.kin.next {
			layer.standWith(s)
		}
	}
}

// standWith has a layer and those in it do what their session does at an instant of that: stand still, unless that is
// over by the beginning of the layer, or go on if it stands still.
func (n *Node) standWith(s verdict.Signal) {
	own := s
	own.From = n.At(s.From)
	if s.Kind == verdict.SignalPause {
		end := n.At(verdict.Sum(s.From, s.Length))
		own.From = max(own.From, n.seen.Attached)
		if own.Length = end - own.From; own.Length > 0 {
			n.take(own)
		}
	} else if _, paused := n.signs().Pauses.Find(s.Key); paused {
		own.From = max(own.From, n.seen.Attached) // it may have been over when the layer began
		n.take(own)
		n.rest(n.now())
	}
	for layer := n.kin.layers; layer != nil; layer = layer.kin.next {
		layer.standWith(s)
	}
}

// recordRelease ends the pause of a hold that was closed just now, and has that recorded, if events tell of it.
func (n *Node) recordRelease(id verdict.HoldID, pause *verdict.Pause, opening *State) {
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
	restored := map[string]*Hold{} // by the IDs of their pauses
	for _, owner := range signs.Holds.Owners() {
		if h := owner.(*Hold); h.restored {
			restored[h.pause.ID] = h
		}
	}
	for _, p := range signs.Pauses.News(stored) {
		if _, opened := signs.Pauses.Find(p.ID); !opened {
			n.stand(verdict.Signal{Kind: verdict.SignalPause, Key: p.ID, From: p.Opened, Length: p.Cap})
		}
		if !p.Closed {
			continue
		}
		n.stand(verdict.Signal{Kind: verdict.SignalUnpause, Key: p.ID, From: p.Released})
		if h := restored[p.ID]; h != nil {
			n.take(verdict.Signal{Kind: verdict.SignalRelease, Key: h.id.Key, Serial: h.id.Serial})
		}
	}
}
