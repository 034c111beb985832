package watchdog_test

import "sync/atomic"

// A modelBusy is the host's Busy of one process, for the library and for the model. Both ask it the same number of
// times.
type modelBusy struct {
	busy  atomic.Bool
	asked atomic.Int64 // by the library
	asks  int64        // of the model
}

func (b *modelBusy) answer() bool {
	b.asked.Add(1)
	return b.busy.Load()
}

// isBusy is what the model is told when it asks before a trip of idle.
func (p *process) isBusy() bool {
	if p.busy == nil {
		return false
	}
	p.busy.asks++
	return p.busy.busy.Load()
}

func (h *pastimes) busyOrNot(p *process) {
	if p.busy == nil {
		return
	}
	p.busy.busy.Store(h.chance(2))
	h.say("%s: busy %v", p.name, p.busy.busy.Load())
}

func (h *pastimes) compareBusy(p *process) {
	if p.busy == nil {
		return
	}
	if got, want := p.busy.asked.Load(), p.busy.asks; got != want {
		h.fail("%s: asked %d times whether it is busy, want %d", p.name, got, want)
	}
}
