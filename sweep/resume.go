package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/session"
)

// startsFor is how long a pass takes starts that are due. The next pass comes at once if there may be more.
const startsFor = 30 * time.Second

func (c Config) resumes(s session.Session) bool { return s.Resumes < c.Resume.Max }

// rowAfter returns the row of a session as its cancel leaves it.
func (w *walk) rowAfter(c Case, by string) session.Session {
	s := c.Session
	s.Status, s.Reason, s.Claim, s.Stopped, s.StopFailed = session.Cancelled, c.Reason(), by, false, c.StopFailed
	s.Lease, s.Lost, s.Behind, s.Activity, s.Silence, s.Allowance = "", false, false, 0, 0, 0
	if w.cfg.resumes(c.Session) {
		s.Resumes++
		s.Start = session.WantedStart{Key: c.endID(), Tries: 1}
	}
	return s
}

// takeStarts calls Start for the runs whose start is due: that of a sweeper which died, or that failed, or that no
// attempt followed. It stops at too many failures in a row.
func (w *walk) takeStarts(ctx context.Context) {
	if w.starts == nil || w.cfg.Resume.Start == nil || w.pass.DryRun {
		return
	}
	began, failures := time.Now(), 0
	for ctx.Err() == nil && failures < maxFailuresInARow {
		if w.startsLeft = time.Since(began) >= startsFor; w.startsLeft {
			return
		}
		more, ok := w.nextStart(ctx)
		if !more {
			return
		}
		if failures++; ok {
			failures = 0
		}
	}
}

// nextStart calls Start for the run whose start has been due for the longest time. It reports whether there may be
// more, and whether this one worked.
func (w *walk) nextStart(ctx context.Context) (more, ok bool) {
	s, err := bounded.Within(context.WithoutCancel(ctx), w.cfg.RecordTimeout,
		func(ctx context.Context) (session.Session, error) {
			return w.starts.ClaimStart(ctx, w.cfg.claimFor()) // for as long as Start, and what is written, may take
		})
	switch {
	case errors.Is(err, session.ErrNotFound):
		return false, true
	case err != nil:
		w.pass.addError(err)
		return errors.Is(err, session.ErrUnreadable), false
	case s.Start.Tries > w.cfg.Resume.Tries: // by whoever called Start before, and died
		w.giveUp(ctx, s, w.cfg.Resume.Tries, nil)
		return true, true
	default:
		return true, w.start(ctx, s)
	}
}

// start calls Start for a run whose start this sweeper has claimed, and reports whether that succeeded. The start stays
// wanted, and is due again after a pause, until an attempt of the run follows.
func (w *walk) start(ctx context.Context, s session.Session) bool {
	err := w.callHost(ctx, func(ctx context.Context) error { return w.cfg.Resume.Start(ctx, s) })
	if err == nil {
		w.pass.Resumed++
		w.logger().Info("a cancelled session was resumed",
			"run", s.RunID, "resumes", s.Resumes, "max", w.cfg.Resume.Max, "tries", s.Start.Tries)
	} else {
		w.pass.addError(fmt.Errorf("resume run %s: %w", s.RunID, err))
	}
	if err != nil && s.Start.Tries >= w.cfg.Resume.Tries {
		w.giveUp(ctx, s, s.Start.Tries, err)
		return false
	}
	if _, putOffErr := w.putOff(ctx, s, pause(w.cfg.Interval, s.Start.Tries-1)); putOffErr != nil {
		w.pass.addError(fmt.Errorf("put off the next start of run %s: %w", s.RunID, putOffErr)) // it is due after the claim
	}
	return err == nil
}

// giveUp ends a start that was tried as often as it may be.
func (w *walk) giveUp(ctx context.Context, s session.Session, tries int, last error) {
	switch done, err := w.putOff(ctx, s, session.NoMoreStarts); {
	case err != nil: // it is due again after the claim
		w.pass.addError(fmt.Errorf("give up the start of run %s: %w", s.RunID, err))
	case done:
		w.logger().Warn("a cancelled session is not resumed any more", "run", s.RunID, "tries", tries)
		text := "run %s is not resumed any more: Start was called %d times, and no attempt followed; " +
			"find out why, and resume the run by hand"
		if last != nil {
			w.pass.addError(fmt.Errorf(text+": %w", s.RunID, tries, last))
		} else {
			w.pass.addError(fmt.Errorf(text, s.RunID, tries))
		}
	}
}

// putOff notes what becomes of a start. A canceller that keeps no starts has Start called once.
func (w *walk) putOff(ctx context.Context, s session.Session, next time.Duration) (done bool, err error) {
	if w.starts == nil {
		return false, nil
	}
	lasting := context.WithoutCancel(ctx)
	return bounded.Within(lasting, w.cfg.RecordTimeout, func(ctx context.Context) (bool, error) {
		return w.starts.PutOffStart(ctx, s, next)
	})
}
