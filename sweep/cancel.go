package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// maxFailuresInARow is how many sessions in a row may fail. After that the database is at fault, not the sessions.
const maxFailuresInARow = 10

// warn appends the event that warns of the cancel, and starts the grace of the session.
func (w *walk) warn(ctx context.Context, c Case, m pending, now time.Time) error {
	event := c.stalledRun(now, false).WarningEvent()
	_, err := limited(ctx, w.cfg.RecordTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, w.canceller.(appender).Append(ctx, event)
	})
	if err != nil {
		return w.failed(c, m, fmt.Errorf("warn run %s: %w", c.Session.RunID, err))
	}
	m.warnedAt = time.Now()
	m.failures, m.next, m.seenBy = 0, m.warnedAt.Add(w.cfg.Grace), w.number
	w.pending.keep(c.Session.RunID, m)
	w.failedInARow = 0
	w.pass.Warned++
	w.addCase(c, CaseWarned)
	w.logger().Warn("a session is stalled and was warned", append(c.attrs(), "grace", w.cfg.Grace)...)
	return nil
}

// cancel stops what works on a session, and then ends the session if it is still as it was judged.
func (w *walk) cancel(ctx context.Context, c Case, m pending, now time.Time) error {
	began := time.Now()
	w.stop(ctx, c.Session)
	took := time.Since(began)
	c.Silence += took
	resume := w.cfg.Resume.Max > c.Session.Resumes
	request := session.CancelRequest{
		Reason: watchdog.SessionIdleTimeout, Resumes: c.Session.Resumes,
		Events: c.stalledRun(now.Add(took), !m.warnedAt.IsZero()).CancelEvents(),
	}
	if resume {
		request.Resumes++
	}
	outcome, err := limited(ctx, w.cfg.RecordTimeout, func(ctx context.Context) (session.Outcome, error) {
		return w.canceller.Cancel(ctx, c.Session, request)
	})
	switch {
	case errors.Is(err, session.ErrLocked): // who writes the row now may say that the run lives
		w.pass.Deferred++
		w.logger().Info("a stalled session is locked by another transaction and was not cancelled", c.attrs()...)
		return nil
	case err != nil:
		return w.failed(c, m, fmt.Errorf("cancel run %s: %w", c.Session.RunID, err))
	}
	w.failedInARow = 0
	w.pending.drop(c.Session.RunID)
	if outcome != session.Done {
		w.pass.Spared++
		w.addCase(c, CaseSpared)
		w.logger().Info("a stalled session has woken up or ended and was spared", c.attrs()...)
		return nil
	}
	w.pass.Cancelled++
	w.logger().Warn("a stalled session was cancelled", c.attrs()...)
	c.Resumed = resume && w.resume(ctx, c.Session)
	w.addCase(c, CaseCancelled)
	w.alert(ctx)
	return nil
}

// stop calls the stop hook. The session is cancelled also if the hook fails.
func (w *walk) stop(ctx context.Context, s session.Session) {
	if w.cfg.StopHook == nil {
		return
	}
	if err := w.callHost(ctx, func(ctx context.Context) error { return w.cfg.StopHook(ctx, s) }); err != nil {
		w.addError(fmt.Errorf("stop what works on run %s: %w", s.RunID, err))
	}
}

// resume has a cancelled session started again, and reports whether that succeeded.
func (w *walk) resume(ctx context.Context, s session.Session) bool {
	if err := w.callHost(ctx, func(ctx context.Context) error { return w.cfg.Resume.Start(ctx, s) }); err != nil {
		w.addError(fmt.Errorf("resume run %s: %w", s.RunID, err))
		return false
	}
	w.pass.Resumed++
	w.logger().Info("a cancelled session was resumed", "run", s.RunID, "resumes", s.Resumes+1, "max", w.cfg.Resume.Max)
	return true
}

// failed puts off the next try of a session. It returns an error, which ends the pass, after too many failures in a
// row.
func (w *walk) failed(c Case, m pending, err error) error {
	m = m.failed(w.cfg.Interval, time.Now())
	m.seenBy = w.number
	w.pending.keep(c.Session.RunID, m)
	w.pass.Failed++
	w.addCase(c, CaseFailed)
	w.addError(err)
	if w.failedInARow++; w.failedInARow < maxFailuresInARow {
		return nil
	}
	return fmt.Errorf("%d sessions in a row failed, the last: %w", w.failedInARow, err)
}
