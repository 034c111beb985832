package watchdog

import (
	"github.com/seed62658d38/watchdog/internal/clocks"
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
		e := machine.NewEntry(lost, r.node.Moment(r.now()).Overrun(call))
		dropped = r.node.Pending.PutSpare(e)
		r.node.LookClosely() // if it cannot be recorded, the next poll tries
		if r.tree.inline && !r.tree.instant() {
			return
		}
		r.untold = append(r.untold, e)
		r.wants(&k)
	})
	for _, old := range dropped {
		callLog(func() { r.logLoss(lost, old.Err()) })
	}
	if len(k.runs) > 0 && r.tree.instant() {
		r.carry(clocks.Now(r.tree.clock.other))
		return
	}
	k.pass(r.tree, clocks.Now(r.tree.clock.other))
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
	var e Event
	r.locked(func() { e = Event(r.node.Moment(r.now()).Correction(stop.EventID())) })
	if r.waiting() { // the store fails, and Close tries again
		r.keep(nil, e)
	} else if err := r.append(e); err != nil {
		r.keep(err, e)
	}
	return true
}
