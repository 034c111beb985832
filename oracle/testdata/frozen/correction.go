package watchdog

import (
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
)

// RecordFinished implements [handle.Run]. It waits for a stop that is being recorded. If the run has a stop of its own,
// the work had finished before that could end it, and RecordFinished records that and reports true.
func (h *runHandle) RecordFinished() (corrected bool) {
	w := (*Watchdog)(h)
	w.endRunning(ErrClosed)
	w.tellTrace()
	stop, _ := w.ending()
	if stop == nil || stop.RunID != w.id {
		return false
	}
	e := w.correctionEvent(stop)
	if w.recorder.waiting() { // the store fails, and Close tries again
		w.recorder.keep(nil, e)
	} else if err := w.append(e); err != nil {
		w.recorder.keep(err, e)
	}
	return true
}

// correctionEvent says that what the stop ended had finished by itself. There is one for each cancel.
func (w *Watchdog) correctionEvent(stop *Stop) Event {
	w.mu.Lock()
	at := w.clock.now()
	w.mu.Unlock()
	return w.newEvent(EventCorrection, at, stop.EventID(), record.Correction{
		Cancel: stop.EventID(), SessionStartedAt: record.Stamp(w.startedAt), CorrectedAt: record.Stamp(at),
		Parent: w.lineage.parent(), Window: w.lineage.fresh(),
	})
}
