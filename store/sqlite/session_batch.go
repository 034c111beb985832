package sqlite

import (
	"context"
	"fmt"

	"github.com/seed62658d38/watchdog/internal/storeflow"
	"github.com/seed62658d38/watchdog/session"
)

// CancelAll implements [session.BatchCanceller]. It decides about every session: SQLite locks no single row. If another
// program keeps the database locked for too long, the error wraps [session.ErrLocked], and nothing is decided.
func (s *Store) CancelAll(ctx context.Context, all []session.BatchedCancel) ([]session.Outcome, error) {
	rows, size := make([][]row, len(all)), 1
	for i, c := range all {
		var err error
		if rows[i], err = storeflow.Encode("cancel", c.Judged, c.Request.Events, encode); err != nil {
			return nil, err
		}
		size += 1 + len(rows[i])
	}
	outcomes := make([]session.Outcome, len(all))
	err := s.change(ctx, fmt.Sprintf("cancel %d sessions", len(all)), size, func(t *transaction) error {
		return t.cancelAll(all, rows, outcomes)
	})
	if err != nil {
		return nil, lockedError(err)
	}
	return outcomes, nil
}

func (t *transaction) cancelAll(all []session.BatchedCancel, rows [][]row, outcomes []session.Outcome) error {
	now, err := t.now()
	if err != nil {
		return err
	}
	var done []row
	for i, c := range all {
		outcomes[i], err = t.judge(c.Judged, c.Request.By, now)
		if err == nil && outcomes[i] == "" {
			outcomes[i], err = t.cancelJudged(c.Judged, c.Request)
		}
		if err != nil {
			return err
		}
		if outcomes[i] == session.Done {
			done = append(done, rows[i]...)
		}
	}
	_, err = t.insertEvents(done)
	return err
}

var _ session.BatchCanceller = (*Store)(nil)
