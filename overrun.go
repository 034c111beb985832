package watchdog

import (
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/driver"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
)

// RecordOverrun implements [handle.Run]. It never waits for a store: a run that does everything on its caller's
// goroutine does this at the next poll.
func (h *runHandle) RecordOverrun(call record.Overrun) {
	r := &h.r
	lost := &machine.Loss{What: "that a call overran"}
	var k driver.Work
	var dropped []*machine.Entry
	r.Locked(func() {
		e := machine.NewEntry(lost, r.Node.Overrun(r.Now(), call))
		dropped = r.Node.Pending.PutSpare(e)
		r.Node.LookClosely() // if it cannot be recorded, the next poll tries
		if r.Tree.Inline && !r.Tree.Instant {
			return
		}
		r.Record.Add(e)
		r.Want(&k)
	})
	for _, old := range dropped {
		bounded.Quietly(func() { r.LogLoss(lost, old.Err()) })
	}
	if k.Records() && r.Tree.Instant {
		r.Record.Carry(clocks.Now(r.Tree.Clock))
		return
	}
	k.Pass(r.Tree, clocks.Now(r.Tree.Clock))
}

// RecordFinished implements [handle.Run]. It waits for a stop that is being recorded. If the run has a stop of its own,
// the work had finished before that could end it, and RecordFinished records that and reports true.
func (h *runHandle) RecordFinished() (corrected bool) {
	r := &h.r
	r.End(ErrClosed)
	r.TellAside()
	stop, _ := r.howEnded()
	if stop == nil || stop.RunID != r.Node.Run {
		return false
	}
	var e fold.Event
	r.Locked(func() { e = r.Node.Correction(r.Now(), stop.EventID()) })
	if r.Record.Waiting() { // the store fails, and Close tries again
		r.Record.Keep(nil, e)
	} else if err := r.Record.Append(r.Values(), e); err != nil {
		r.Record.Keep(err, e)
	}
	return true
}
