package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Hold is a stretch in which silence is expected.
type Hold struct {
	id     verdict.HoldID
	closed bool
	// pause is how it stops the wall clock, nil if it does not, and opening where the record of that stands.
	pause   *verdict.Pause
	opening *State
	outer   *Hold // the same on the run around a layer
}

// Closed reports whether it was closed.
func (h *Hold) Closed() bool { return h.closed }

// openHold opens a hold on its run and on those around it. It takes over those with its key that processes which are
// gone left open.
func (n *Node) openHold(in *Input) {
	if in.Held = n.signs().Holds.Find(in.ID) != nil; in.Held {
		return
	}
	if in.Limits.Idle == verdict.Never || n.Disabled {
		in.Limits.Idle = 0
	} else if in.Limits.Idle > 0 {
		n.Heed()
	}
	in.Hold = &Hold{id: in.ID}
	if taken := n.takeLeft(in.ID.Key, false, in.Gone); len(taken) > 0 {
		n.takeOver(in.Hold, taken, in)
	} else {
		n.hold(in.Hold, in.Limits)
		if in.Pauses {
			n.pauseClock(in.Hold, "", in.Limits.Cap, in.By)
		}
	}
	n.openAround(in)
	n.look()
}

// keyAround is the key that a hold of a layer has on the runs around.
func (n *Node) keyAround(key string) string {
	if key == "" {
		return ""
	}
	return n.Run + "/" + key
}

// openAround opens a hold on each of the runs around a layer that have not ended. Each is a hold of its own, whatever
// the others are called, without a cap and with any silence allowed, because it ends with the one inside.
func (n *Node) openAround(in *Input) {
	key, inside := n.keyAround(in.ID.Key), in.Hold
	for layer, around := n, n.outer; around != nil; layer, around = around, around.outer {
		inside.outer = &Hold{}
		inside = inside.outer
		if around.look(); around.phase == Over {
			continue
		}
		inside.id = verdict.HoldID{Key: key, Serial: around.signs().Holds.NextSerial()}
		around.hold(inside, verdict.HoldLimits{Cap: verdict.Never})
		if in.Pauses {
			taken := around.takeLeft(key, true, in.Gone) // the hold is opened again, with a cap of its own
			around.pauseClock(inside, layer.Run, in.Limits.Cap, in.By)
			around.releaseTaken(taken, inside.pause.ID)
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
		h, own := owner.(*Hold)
		if !own {
			continue
		}
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

// pauseClock has the wall clock stand still for a hold from now on, and has that recorded, with who opened it. The
// pause is in whole microseconds as its event has it: what this process counts is what the store says.
func (n *Node) pauseClock(h *Hold, layer string, limit time.Duration, by *record.Opener) {
	p := &verdict.Pause{
		ID: record.EventID("", "", "", ""), Opened: n.now().Truncate(time.Microsecond),
		Cap: limit.Truncate(time.Microsecond),
	}
	m := n.Moment(n.tree.Room.now)
	e := laterEntry(event.Hold, func() event.Event { return m.hold(h.id.Key, layer, p, by) })
	e.Opens = true
	n.record(e)
	h.pause, h.opening = p, &e.State
	n.stand(verdict.Signal{Kind: verdict.SignalPause, Key: p.ID, From: p.Opened, Length: p.Cap})
	n.seen.Signs.Pauses.MakeOwn(p.ID)
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
	if n.more != nil && id.Serial == 0 { // one that is held around a layer has no ladder
		replaced = n.more.given.take(func(g *given) bool { return g.on.Limit == string(verdict.Hold) && g.on.Hold == id.Key })
	}
	switch {
	case pause != nil:
		n.endPause(id.Key, pause.ID, "", opening, replaced)
	case len(replaced) > 0:
		n.endPause(id.Key, "", "", nil, replaced)
	}
}

// endPause has it recorded that a hold was closed just now, by the opening of the one that took it over if one did, and
// ends its pause if it has one.
func (n *Node) endPause(key, opened, by string, opening *State, replaced []string) {
	m, elapsed := n.Moment(n.tree.Room.now), n.now().Truncate(time.Microsecond)
	e := laterEntry(event.Release, func() event.Event { return m.release(key, opened, by, elapsed, replaced) })
	e.Closes, e.Opening = opened != "", opening
	n.record(e)
	if opened != "" {
		n.stand(verdict.Signal{Kind: verdict.SignalUnpause, Key: opened, From: elapsed})
	}
}
