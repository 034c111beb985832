package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/pending"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Hold is a stretch in which silence is expected.
type Hold struct {
	node   *Node
	id     verdict.HoldID
	closed bool
	// pause is how it stops the wall clock, nil if it does not.
	pause   *verdict.Pause
	opening *pending.State // of the pause; nil if another process opened it
	// restored tells that a process which is gone opened it, and nobody has taken it over.
	restored bool
	outer    *Hold // the same on the run around a layer; nil once it is closed
}

// Closed reports whether it was closed.
func (h *Hold) Closed() bool { return h.closed }

// openHold opens a hold on its run, if that has not ended, and on those around it. If a process that is gone left a
// hold with the key open, it is that one.
func (n *Node) openHold(in *Input) {
	n.look()
	switch {
	case n.mustWait():
		in.Wait = true
		return
	case n.phase == Over:
		return
	case n.signs().Held(in.ID):
		in.Held, in.Hold = true, n.takeOver(in)
	default:
		in.Hold = &Hold{node: n}
		in.Hold.take(in.ID, in.Limits)
		if in.Pauses {
			in.Hold.pause, in.Hold.opening = n.pauseClock(in.ID.Key, "", in.Limits.Cap)
		}
		in.Hold.openAround(in)
	}
	n.look()
}

// takeOver returns the open hold if a process that is gone opened it, once.
func (n *Node) takeOver(in *Input) *Hold {
	h := n.signs().Holds.Find(in.ID).Owner.(*Hold)
	if !h.restored {
		return nil
	}
	h.restored = false
	n.signs().Pauses.TakeOver(h.pause.ID)
	n.take(signal(verdict.Signal{
		Kind: verdict.SignalTakeOver, Key: in.ID.Key, Serial: in.ID.Serial, Idle: n.heedIdle(in.Limits.Idle),
	}))
	return h
}

// heedIdle returns the silence that a hold allows, 0 for any, and has signals heeded if there is a limit.
func (n *Node) heedIdle(idle time.Duration) time.Duration {
	if idle == 0 || idle == verdict.Never || n.Disabled {
		return 0
	}
	n.Heed()
	return idle
}

// openAround opens a hold on each of the runs around a layer. Each is a hold of its own, whatever the others are
// called, without a cap and with any silence allowed, because it ends with the one inside.
func (h *Hold) openAround(in *Input) {
	key := h.node.Run + "/" + in.ID.Key
	for inside := h; inside.node.outer != nil; inside = inside.outer {
		around := inside.node.outer
		inside.outer = &Hold{node: around}
		around.change(func() {
			inside.outer.take(
				verdict.HoldID{Key: key, Serial: around.signs().Holds.NextSerial()}, verdict.HoldLimits{Cap: verdict.Never})
			if in.Pauses {
				around.takeLeft(key)
				inside.outer.pause, inside.outer.opening = around.pauseClock(key, inside.node.Run, in.Limits.Cap)
			}
		})
	}
}

// change makes a change that can bring a limit nearer, unless the run has ended. It looks before, for what was exceeded
// by then, and afterwards.
func (n *Node) change(change func()) {
	n.look()
	if n.phase != Over {
		change()
	}
	n.look()
}

// take opens the hold.
func (h *Hold) take(id verdict.HoldID, limits verdict.HoldLimits) {
	h.id = id
	s := verdict.Signal{
		Kind: verdict.SignalHold, Key: id.Key, Serial: id.Serial, Length: limits.Cap, Idle: h.node.heedIdle(limits.Idle),
	}
	if id.Serial == 0 {
		s.Rung = h.node.more.rungOf(fold.KeyOf(verdict.Hold, id.Key, nil))
	}
	h.node.take(signal(s))
	h.node.signs().Holds.Find(id).Owner = h
}

// release closes the hold, here and on the runs around. It does not wait for a stop that is being recorded: if the run
// goes on after all, the hold is closed.
func (h *Hold) release(in *Input) {
	for ; h != nil && !h.closed; h = h.outer {
		in.Done = true
		h.node.change(h.close)
	}
}

// close closes an open hold of a run that goes on.
func (h *Hold) close() {
	h.closed = true
	h.node.take(signal(verdict.Signal{Kind: verdict.SignalRelease, Key: h.id.Key, Serial: h.id.Serial}))
	h.node.recordRelease(h.id, h.pause, h.opening)
}

// closeHolds closes the holds of a run that has ended, here and on the runs around, so that nothing of them is kept.
func (n *Node) closeHolds() {
	if n.seen.Signs == nil || n.seen.Signs.Holds == nil {
		return
	}
	for _, owner := range n.seen.Signs.Holds.Owners() {
		h := owner.(*Hold)
		h.closed = true
		for around := h.outer; around != nil && !around.closed; around = around.outer {
			if around.node.phase == Over { // before the hold was opened, while the end of a layer inside was recorded
				continue
			}
			around.close()
			around.node.lookSoon()
		}
		h.outer = nil
	}
	n.seen.Signs.CloseAll(n.now())
}

// leftOpen is the pause of the hold whose cap was exceeded, if another process opened it and nobody took it over: that
// process may live and have closed it.
func (n *Node) leftOpen(v verdict.Verdict) (pause string) {
	if v.Limit != verdict.Hold {
		return ""
	}
	open := n.signs().Holds.Find(verdict.HoldID{Key: v.Hold, Serial: v.HoldSerial})
	if open == nil {
		return ""
	}
	if h := open.Owner.(*Hold); h.restored {
		return h.pause.ID
	}
	return ""
}

// restoreHolds takes up the holds that the events say are open: the process that opened them is gone, and whoever opens
// one with the same key takes it over. Those of layers may be of a process that lives: they stop the wall clock until
// their cap, or until a layer opens one with the key again, and hold nothing else.
func (n *Node) restoreHolds(found *fold.Window) {
	for _, p := range found.Pauses() {
		n.learnPauses([]verdict.Pause{p.Pause})
		switch id := (verdict.HoldID{Key: p.Hold}); {
		case p.Closed:
		case p.Layer != "":
			n.extras().left = append(n.more.left, p)
		case !n.signs().Held(id):
			h := &Hold{node: n, id: id, pause: &p.Pause, restored: true}
			n.take(signal(verdict.Signal{
				Kind: verdict.SignalHeld, Key: id.Key, From: p.Opened, Length: p.Cap,
				Rung: n.more.rungOf(fold.KeyOf(verdict.Hold, id.Key, nil)),
			}))
			n.signs().Holds.Find(id).Owner = h
		}
	}
}
