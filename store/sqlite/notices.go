package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/storeflow"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// The transaction of selectDue and claimDue has the write lock, so that they find the same rows. EndEarly ends the
// claims and pauses that began before the clock was set back.
const (
	putNotice = `INSERT INTO main.watchdog_outbox (event_id, aggregate_type, aggregate_id, event_type, created_at)
	SELECT ?1, ?2, ?3, ?4, ` + databaseTime + ` WHERE NOT EXISTS (SELECT 1 FROM main.watchdog_outbox WHERE event_id = ?1)`

	endEarly  = `UPDATE main.watchdog_outbox SET due_at = ?1 WHERE due_at > ?2 AND paused_at > ?2`
	areDue    = ` FROM main.watchdog_outbox WHERE due_at <= ?1 ORDER BY due_at, id LIMIT ?2`
	selectDue = `SELECT event_id, aggregate_type, aggregate_id, event_type, created_at, tries + 1,
		CAST(waited AS INTEGER)` + areDue
	claimDue = `UPDATE main.watchdog_outbox SET due_at = ?3, paused_at = ?1, tries = tries + 1
		WHERE id IN (SELECT id` + areDue + `)`

	deleteNotices = `DELETE FROM main.watchdog_outbox WHERE event_id IN (SELECT value FROM json_each(?1))`
	delayNotice   = `UPDATE main.watchdog_outbox SET due_at = ?3, paused_at = ?4, waited = min(waited + ?5, ?6)
	WHERE event_id = ?1 AND tries = ?2`
)

// PutNotices implements [session.Outbox]. Like Append it shares a transaction with other writes and waits for its
// commit, as the other calls of the outbox do.
func (s *Store) PutNotices(ctx context.Context, notices ...session.Notice) error {
	if err := storeflow.FirstInvalid(notices); err != nil {
		return err
	}
	return s.changeOutbox(ctx, fmt.Sprintf("put %d notices", len(notices)), len(notices), func(t *transaction) {
		for _, n := range notices {
			t.do(putNotice, n.ID, n.AggregateType, n.AggregateID, n.Type)
		}
	})
}

// ClaimNotices implements [session.Outbox]. If nothing is due it writes nothing.
func (s *Store) ClaimNotices(ctx context.Context, most int, lasts time.Duration) ([]session.Notice, error) {
	if err := storerows.CheckClaim(most, lasts); err != nil {
		return nil, err
	}
	var due []session.Notice
	err := s.changeOutbox(ctx, "claim notices", most, func(t *transaction) {
		now := t.now()
		t.do(endEarly, formatTime(now), formatTime(now.Add(storerows.SetBack)))
		due = rowsIn(t, scanNotice, selectDue, formatTime(now), most)
		if len(due) > 0 {
			t.do(claimDue, formatTime(now), most, formatTime(now.Add(lasts)))
		}
	})
	if err != nil {
		return nil, err
	}
	return due, nil
}

// scanNotice reads a row. One of another program whose time has another form has none: it holds up no other.
func scanNotice(rows *sql.Rows) (n session.Notice, err error) {
	var created string
	var waited int64
	err = rows.Scan(&n.ID, &n.AggregateType, &n.AggregateID, &n.Type, &created, &n.Tries, &waited)
	n.Waited = time.Duration(waited) * time.Microsecond
	if at, parseErr := parseTime(created); parseErr == nil {
		n.CreatedAt = at
	}
	return n, err
}

// FinishNotices implements [session.Outbox].
func (s *Store) FinishNotices(ctx context.Context, notices ...session.Notice) error {
	ids := jsonArray(storeflow.NoticeIDs(notices)) // the caller may change them while the write waits
	doing := fmt.Sprintf("finish %d notices", len(notices))
	return s.changeOutbox(ctx, doing, len(notices), func(t *transaction) { t.do(deleteNotices, ids) })
}

// DelayNotice implements [session.Outbox].
func (s *Store) DelayNotice(ctx context.Context, n session.Notice, pause time.Duration) error {
	if err := storerows.CheckPause(n.ID, pause); err != nil {
		return err
	}
	return s.changeOutbox(ctx, "delay notice "+n.ID, 1, func(t *transaction) {
		now := t.now()
		t.do(delayNotice, n.ID, n.Tries, formatTime(now.Add(pause)), formatTime(now),
			storerows.RoundUp(pause), storerows.LongestWait)
	})
}

func (s *Store) changeOutbox(ctx context.Context, doing string, size int, write func(*transaction)) error {
	if !s.outbox && s.reader == nil && !s.queue.isClosed() {
		return fmt.Errorf("%s: %w", doing, s.wrapError("write to", session.ErrNoOutbox))
	}
	return s.change(ctx, doing, size, write)
}
