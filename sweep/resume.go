package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// A resumption is a cancelled run that the [ResumePolicy] has started again, or tries to.
type resumption struct {
	session session.Session // as it was judged
	// used is how many starts there were, of the run in all. The row of the run knows only those up to its last cancel.
	used     int
	failures int       // in a row
	next     time.Time // when to try again, or since when there is nothing to do
	waiting  bool      // it is to be tried again
}

// resumesUsed returns how often a run has been started again.
func (w *walk) resumesUsed(s session.Session) int {
	if r := w.resumptions[s.RunID]; r != nil {
		return max(r.used, s.Resumes)
	}
	return s.Resumes
}

// resume has a run that was just cancelled started again, and reports whether that succeeded.
func (w *walk) resume(ctx context.Context, s session.Session) bool {
	r := &resumption{session: s, used: w.resumesUsed(s)}
	w.resumptions[s.RunID] = r
	return w.start(ctx, r)
}

// start has a run started again. A failure is tried again by a later pass, while there are starts left.
func (w *walk) start(ctx context.Context, r *resumption) bool {
	r.used++
	err := w.callHost(ctx, func(ctx context.Context) error { return w.cfg.Resume.Start(ctx, r.session) })
	r.waiting, r.next = err != nil && r.used < w.cfg.Resume.Max && w.reader != nil, time.Now()
	if err != nil {
		r.next = r.next.Add(pause(w.cfg.Interval, r.failures))
		r.failures++
		w.addError(fmt.Errorf("resume run %s: %w", r.session.RunID, err))
		return false
	}
	w.pass.Resumed++
	w.logger().Info("a cancelled session was resumed",
		"run", r.session.RunID, "resumes", r.used, "max", w.cfg.Resume.Max)
	return true
}

// resumeAgain tries the starts again that failed in the passes before. It stops at too many failures in a row.
func (w *walk) resumeAgain(ctx context.Context) {
	failures, now := 0, time.Now()
	for _, runID := range slices.Sorted(maps.Keys(w.resumptions)) {
		r := w.resumptions[runID]
		switch {
		case ctx.Err() != nil || failures >= maxFailuresInARow:
			return
		case !r.waiting || now.Before(r.next):
			continue
		}
		cancelled, err := w.stillCancelled(ctx, r.session)
		switch {
		case err != nil:
			w.addError(fmt.Errorf("resume run %s again: %w", runID, err))
			failures++
		case !cancelled:
			r.waiting = false
		case !w.start(ctx, r):
			failures++
		default:
			failures = 0
		}
	}
}

// stillCancelled reports whether a session is as its cancel left it.
func (w *walk) stillCancelled(ctx context.Context, s session.Session) (bool, error) {
	row, err := w.readSession(ctx, s.RunID)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrUnreadable) {
		return false, nil
	}
	return row.Status == session.Cancelled && row.Attempt == s.Attempt, err
}

// forgetResumptions drops those that were over long ago.
func (p *passes) forgetResumptions(now time.Time) {
	maps.DeleteFunc(p.resumptions, func(_ string, r *resumption) bool { return now.Sub(r.next) > forgetAfter })
}
