package sweep

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog/session"
)

// maxUnreached is how many sessions in a row may fail and then not be read either. After that the database is at fault.
const maxUnreached = 3

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
		if w.starts == nil {
			row = w.rowAfter(c, m.by)
		}
		w.cancelled(ctx, c, row)
		return true, nil
	}
	w.spared(c)
	return true, nil
}

// inDoubt handles an error of Cancel, which may have been committed all the same: the row decides. It returns an error
// if the pass has to end. Of a row that cannot be read either nobody knows now: a later pass judges what it says then,
// and whoever cancelled the session, its start is in the row.
func (w *walk) inDoubt(ctx context.Context, c Case, m pending, err error) error {
	m.unanswered = true
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
