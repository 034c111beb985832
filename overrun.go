package watchdog

import (
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
)

// RecordOverrun implements [handle.Run]. It never waits for a store: a run that does everything on its caller's
// goroutine does this at the next poll.
func (h *runHandle) RecordOverrun(call record.Overrun) {
	r := &h.r
	lost := &machine.Loss{What: "that a call overran"}
	var k work
	var dropped []*machine.Entry
	r.locked(func() {
		e := machine.NewEntry(lost, r.node.Overrun(r.now(), call))
		dropped = r.node.Pending.PutSpare(e)
		r.node.LookClosely() // if it cannot be recorded, the next poll tries
		if r.tree.Inline && !r.tree.Instant {
			return
		}
		r.record.Add(e)
		k.recordOf(r)
	})
	for _, old := range dropped {
		bounded.Quietly(func() { r.logLoss(lost, old.Err()) })
	}
	if len(k.record) > 0 && r.tree.Instant {
		r.record.Carry(clocks.Now(r.tree.Clock))
		return
	}
	k.pass(r.tree, clocks.Now(r.tree.Clock))
}

// RecordFinished implements [handle.Run]. It waits for a stop that is being recorded. If the run has a stop of its own,
// the work had finished before that could end it, and RecordFinished records that and reports true.
func (h *runHandle) RecordFinished() (corrected bool) {
	r := &h.r
	r.endRunning(ErrClosed)
	r.tellAside()
	stop, _ := r.howEnded()
	if stop == nil || stop.RunID != r.node.Run {
		return false
	}
	var e fold.Event
	r.locked(func() { e = r.node.Correction(r.now(), stop.EventID()) })
	if r.record.Waiting() { // the store fails, and Close tries again
		r.record.Keep(nil, e)
	} else if err := r.record.Append(r.Values(), e); err != nil {
		r.record.Keep(err, e)
	}
	return true
}
