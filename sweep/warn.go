package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// inGrace warns a session, or waits for the end of its grace. It reports false if the session is to be cancelled.
func (w *walk) inGrace(ctx context.Context, c Case, m pending, now time.Time) (waits bool, err error) {
	left, warned := w.graceLeft(c, m, now)
	switch {
	case w.cfg.Grace == 0 || warned && left <= 0:
		return false, nil
	case warned:
		m.due = time.Now().Add(left)
		w.remember(c, m)
		w.pass.Deferred++
	case w.warned >= w.most && w.counts(c.Session):
		w.pass.Deferred++
	default:
		if err := w.cancelPlanned(ctx); err != nil { // they come before this session
			return true, err
		}
		return true, w.warn(ctx, c, m, now)
	}
	return true, nil
}

// graceLeft returns how much of a session's grace is left, and whether it was warned at all. The database knows when,
// so that other sweepers do. Without that the sweeper remembers it.
func (w *walk) graceLeft(c Case, m pending, now time.Time) (left time.Duration, warned bool) {
	if w.warner == nil {
		return w.cfg.Grace - time.Since(m.warnedAt), !m.warnedAt.IsZero()
	}
	at := c.Session.WarnedAt
	return w.cfg.Grace - w.certain(now.Sub(at)), !at.IsZero()
}

// warn appends the event that warns of the cancel, and starts the grace of the session.
func (w *walk) warn(ctx context.Context, c Case, m pending, now time.Time) error {
	outcome, err := w.writeWarning(ctx, c.Session, c.stalledRun(now, false).WarningEvent())
	switch {
	case errors.Is(err, session.ErrLocked):
		w.locked(c)
		return nil
	case err != nil:
		return w.failed(c, m, fmt.Errorf("warn run %s: %w", c.Session.RunID, err))
	}
	w.answered()
	switch outcome {
	case session.Done:
		m.warnedAt = time.Now()
		m.failures, m.next, m.due = 0, time.Time{}, m.warnedAt.Add(w.cfg.Grace)
		w.remember(c, m)
		w.pass.Warned++
		if w.counts(c.Session) {
			w.warned++
		}
		w.addCase(c, CaseWarned)
		w.logger().Warn("a session is stalled and was warned", append(c.attrs(), "grace", w.cfg.Grace)...)
	case session.Taken:
		w.taken(c)
	default:
		w.spared(c)
	}
	return nil
}

func (w *walk) writeWarning(ctx context.Context, s session.Session, event watchdog.Event) (session.Outcome, error) {
	return limited(ctx, w.cfg.RecordTimeout, func(ctx context.Context) (session.Outcome, error) {
		if w.warner != nil {
			return w.warner.Warn(ctx, s, []watchdog.Event{event})
		}
		return session.Done, w.appender.Append(ctx, event)
	})
}
