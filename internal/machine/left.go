package machine

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A left hold is one that stops the wall clock, that another process or a layer there opened, and that is open as far
// as this process knows. Its opener may live.
type left struct {
	fold.Pause
	// id is the hold's here. Its Serial is 0 while it stops the wall clock and holds nothing, as one of a layer does, and
	// one that was opened after the attach.
	id verdict.HoldID
	// beside says that a hold with its key was opened after it, whose opener minds the cap.
	beside bool
	closed bool
}

// pausesOnly reports whether it holds nothing.
func (l *left) pausesOnly() bool { return l.id.Serial == 0 }

// end is when its cap is over.
func (l *left) end() time.Duration { return verdict.Sum(l.Opened, l.Cap) }

// is reports whether a hold of this run, or of a layer, with the key can take it over.
func (l *left) is(key string, layer bool) bool { return l.Hold == key && (l.Layer != "") == layer }

// Openers returns who opened the holds that one with the key, which is opened on the run, can take over, by the IDs of
// their openings. It knows nothing of those of older versions.
func (n *Node) Openers(key string) (openers map[string]*record.Opener) {
	openers = n.more.openersOf(key, false, nil)
	for around := n.outer; around != nil; around = around.outer {
		openers = around.more.openersOf(n.keyAround(key), true, openers)
	}
	return openers
}

// openersOf notes those of the holds that one with the key can take over.
func (m *more) openersOf(key string, layer bool, openers map[string]*record.Opener) map[string]*record.Opener {
	if m == nil {
		return openers
	}
	for _, l := range m.left {
		switch {
		case l.Opener == nil || !l.is(key, layer):
			continue
		case openers == nil:
			openers = map[string]*record.Opener{}
		}
		openers[l.ID] = l.Opener
	}
	return openers
}

// expectLeft has what other processes left open expect silence here, at an attach, but for what layers did.
func (n *Node) expectLeft() {
	if n.more == nil {
		return
	}
	last := map[string]*left{} // by their keys
	for _, l := range n.more.left {
		if l.Layer != "" {
			continue
		}
		n.expectSilence(l)
		if before := last[l.Hold]; before != nil {
			before.beside = true
		}
		last[l.Hold] = l
	}
}

// expectSilence has one of them do so.
func (n *Node) expectSilence(l *left) {
	l.id = verdict.HoldID{Key: l.Hold, Serial: n.signs().Holds.NextSerial()}
	n.take(verdict.Signal{
		Kind: verdict.SignalHeld, Key: l.id.Key, Serial: l.id.Serial, From: l.Opened, Length: l.Cap,
		Rung: n.more.rungOf(fold.KeyOf(verdict.Hold, l.Hold, nil)),
	})
	n.seen.Signs.Holds.Find(l.id).Owner = l
}

// takeLeft takes those that a hold with the key takes over, because their openers are known to be gone. The others stay
// open beside it.
func (n *Node) takeLeft(key string, layer bool, gone map[string]bool) (taken []*left) {
	if n.more == nil {
		return nil
	}
	now := n.now()
	n.more.left = slices.DeleteFunc(n.more.left, func(l *left) bool {
		switch {
		case !l.is(key, layer):
			return false
		case !gone[l.ID]:
			l.beside = true
			return false
		}
		if !l.pausesOnly() || l.end() >= now { // else its pause is over
			taken = append(taken, l)
		}
		return true
	})
	return taken
}

// takeOver has the hold go on as the one of them that may last longest, for no longer than that one might, and closes
// them.
func (n *Node) takeOver(h *Hold, taken []*left, in *Input) {
	last := slices.MaxFunc(taken, func(a, b *left) int {
		return cmp.Compare(a.end(), b.end())
	})
	if last.pausesOnly() {
		n.expectSilence(last)
	}
	n.take(verdict.Signal{
		Kind: verdict.SignalTakeOver, Key: last.id.Key, Serial: last.id.Serial, Idle: in.Limits.Idle,
	})
	n.seen.Signs.Holds.Find(h.id).Owner = h
	n.pauseClock(h, "", max(last.end()-n.now().Truncate(time.Microsecond), 0), in.By)
	n.releaseTaken(taken, h.pause.ID)
}

// releaseTaken closes what a hold took over whose opening has that ID, and has that recorded.
func (n *Node) releaseTaken(taken []*left, by string) {
	for _, l := range taken {
		n.closeLeft(l)
		n.endPause(l.Hold, l.ID, by, nil, nil)
	}
}

func (n *Node) closeLeft(l *left) {
	l.closed = true
	if !l.pausesOnly() {
		n.take(verdict.Signal{Kind: verdict.SignalRelease, Key: l.id.Key, Serial: l.id.Serial})
	}
}

// forgetLeft lets go of those that were closed.
func (m *more) forgetLeft() {
	m.left = slices.DeleteFunc(m.left, func(l *left) bool { return l.closed })
}

// leftOf is the hold whose cap the verdict is about, if another process left it open.
func (n *Node) leftOf(v *verdict.Verdict) *left {
	if v.Limit != verdict.Hold {
		return nil
	}
	open := n.seen.Signs.Holds.Find(verdict.HoldID{Key: v.Hold, Serial: v.HoldSerial})
	if open == nil {
		return nil
	}
	l, _ := open.Owner.(*left)
	return l
}

// lapses closes the hold that the verdict is about if that ends nothing, and reports whether it did: its cap is over,
// and one with its key was opened after it.
func (n *Node) lapses(v *verdict.Verdict) bool {
	l := n.leftOf(v)
	if l == nil || !l.beside {
		return false
	}
	n.closeLeft(l)
	n.more.forgetLeft()
	return true
}

// leftOpen is the ID of the pause of such a hold, empty for any other: its opener may live and have closed it.
func (n *Node) leftOpen(v *verdict.Verdict) string {
	if l := n.leftOf(v); l != nil {
		return l.ID
	}
	return ""
}

// learnPauses counts what the store has of the pauses of other processes, as it has it: otherwise a trip that yields to
// it would do so for ever. A hold that was left open and was closed since is closed here, too.
func (n *Node) learnPauses(stored []fold.Pause) {
	if len(stored) == 0 {
		return
	}
	pauses, known := &n.signs().Pauses, map[string]*left{}
	if n.more != nil {
		for _, l := range n.more.left {
			known[l.ID] = l
		}
	}
	for i := range stored {
		p := &stored[i]
		if !pauses.IsNews(p.Pause) {
			continue
		}
		if _, opened := pauses.Find(p.ID); !opened {
			n.stand(verdict.Signal{Kind: verdict.SignalPause, Key: p.ID, From: p.Opened, Length: p.Cap})
			if !p.Closed {
				n.extras().left = append(n.more.left, &left{Pause: *p})
			}
		}
		if !p.Closed {
			continue
		}
		n.stand(verdict.Signal{Kind: verdict.SignalUnpause, Key: p.ID, From: p.Released})
		if l := known[p.ID]; l != nil {
			n.closeLeft(l)
		}
	}
	if len(known) > 0 {
		n.more.forgetLeft()
	}
}
