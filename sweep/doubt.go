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

// settleFor is how long a pass looks up sessions that are gone. Another one looks up the rest.
const settleFor = 30 * time.Second

// maxUnreached is how many sessions in a row may fail and then not be read either. After that the database is at fault.
const maxUnreached = 3

// noteUnanswered has a cancel looked up that was not answered, if that can be done.
func (w *walk) noteUnanswered(c Case, m *pending) {
	if w.reader != nil {
		m.unanswered = &c
	}
}

// settle reads what became of a session whose cancel was not answered, and handles it. It reports false if the session
// is active.
func (w *walk) settle(ctx context.Context, c Case, m pending) (settled bool, err error) {
	runID := c.Session.RunID
	row, err := limited(ctx, w.cfg.RecordTimeout, func(ctx context.Context) (session.Session, error) {
		return w.reader.Session(ctx, runID)
	})
	switch {
	case errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrUnreadable):
	case err != nil:
		return false, fmt.Errorf("look up the cancel of run %s: %w", runID, err)
	case row.Status == session.Active:
		return false, nil
	case row.Status == session.Cancelled && row.Claim == m.by && row.Reason == c.Reason():
		w.logger().Warn("the answer about a cancel was lost, and the session was cancelled", c.attrs()...)
		switch {
		case w.starts == nil:
			row = w.rowAfter(c, m.by)
		case !w.mayStart(row):
			row.Start = session.WantedStart{} // it is taken as any other that is due
		}
		w.cancelled(ctx, c, row)
		return true, nil
	}
	w.spared(c)
	return true, nil
}

// mayStart reports whether the claim that a cancel made on the start lasts for as long as Start may take. It may have
// been written long ago, and another sweeper can take the start when the claim is over.
func (w *walk) mayStart(row session.Session) bool {
	return row.Start.Due.Sub(w.database.now(w.clock())) >= w.cfg.StopTimeout+lateness
}

// inDoubt handles an error of Cancel, which may have been committed all the same: the row decides. It returns an error
// if the pass has to end. A row that cannot be read either is read by the pass that does not find the session any more;
// what has to follow a cancel waits for nobody, because it is in the row.
func (w *walk) inDoubt(ctx context.Context, c Case, m pending, err error) error {
	w.noteUnanswered(c, &m)
	if w.reader == nil || w.unreached >= maxUnreached {
		w.noteStopped(ctx, c, m)
		return w.failed(c, m, err)
	}
	settled, lookUpErr := w.settle(ctx, c, m)
	switch {
	case settled:
		return nil
	case lookUpErr != nil:
		w.unreached++
		err = errors.Join(err, lookUpErr)
	default:
		w.unreached = 0
		w.noteStopped(ctx, c, m)
	}
	if failure := w.failed(c, m, err); failure != nil {
		return failure
	}
	if w.unreached >= maxUnreached {
		return fmt.Errorf("%d sessions in a row failed and cannot be read, the last: %w", w.unreached, err)
	}
	return nil
}

// settleGone looks up the sessions that a complete pass did not find any more and whose cancel was not answered: they
// may be gone because it was committed late, and then it counts. It stops if the database cannot be read.
func (w *walk) settleGone(ctx context.Context) {
	if !w.complete {
		return
	}
	began, unreached := time.Now(), 0
	for _, runID := range slices.Sorted(maps.Keys(w.pending)) {
		m := *w.pending[runID]
		switch {
		case ctx.Err() != nil || unreached >= maxUnreached || time.Since(began) > settleFor:
			return
		case m.unanswered == nil || m.seenBy >= w.number:
			continue
		}
		if settled, err := w.settle(context.WithoutCancel(ctx), *m.unanswered, m); err != nil {
			unreached++
			w.addError(err)
		} else if unreached = 0; !settled {
			w.pending.drop(runID)
		}
	}
}
