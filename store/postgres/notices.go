package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog/internal/storeflow"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// putNotices takes the IDs in their order, as every insert of events does, so that two cannot deadlock.
const putNotices = `
	INSERT INTO SCHEMA.watchdog_outbox (event_id, aggregate_type, aggregate_id, event_type, created_at, alert)
	SELECT n.id, n.aggregate_type, n.aggregate_id, n.event_type, {now}, true
	FROM unnest($1::{text}[], $2::{text}[], $3::{text}[], $4::{text}[])
		WITH ORDINALITY AS n (id, aggregate_type, aggregate_id, event_type, place)
	WHERE NOT EXISTS (SELECT FROM SCHEMA.watchdog_outbox AS o WHERE o.event_id {=} n.id)
	ORDER BY n.id COLLATE pg_catalog."C", n.place ON CONFLICT (event_id) WHERE alert DO NOTHING`

// PutNotices implements [session.Outbox], in one round trip. Those of one call are claimed in the order of their IDs.
func (s *Store) PutNotices(ctx context.Context, notices ...session.Notice) error {
	if err := storeflow.FirstInvalid(notices); err != nil {
		return err
	}
	return s.ofOutbox(ctx, fmt.Sprintf("put %d notices in", len(notices)), func(ctx context.Context) error {
		if len(notices) == 0 {
			return nil
		}
		_, err := s.exec(ctx, putNotices, noticeColumns(notices)...)
		return err
	})
}

func noticeColumns(notices []session.Notice) []any {
	var columns [4][]string
	for _, n := range notices {
		for i, text := range []string{n.ID, n.AggregateType, n.AggregateID, n.Type} {
			columns[i] = append(columns[i], text)
		}
	}
	return []any{columns[0], columns[1], columns[2], columns[3]}
}

// setBack is the instant after which a claim or a pause began before the clock was set back. It is no parameter,
// because the server would plan the statement anew at each claim to see how many rows there are.
var setBack = fmt.Sprintf(`({now} {+} interval '%d microseconds')`, storerows.SetBack.Microseconds())

// claimNotices looks up the rows that it has locked by their key, whatever the planner assumes about their number: see
// lockRows. Rows whose claim or pause began before the clock was set back come last.
var claimNotices = `WITH due AS MATERIALIZED (SELECT id, due_at FROM (
			SELECT id, due_at FROM SCHEMA.watchdog_outbox WHERE due_at {<=} {now}
			ORDER BY due_at, id LIMIT $1 FOR UPDATE SKIP LOCKED) AS o UNION ALL SELECT id, due_at FROM (
			SELECT id, due_at FROM SCHEMA.watchdog_outbox WHERE due_at {>} ` + setBack + ` AND paused_at {>} ` + setBack + `
			ORDER BY due_at, id LIMIT $1 FOR UPDATE SKIP LOCKED) AS early LIMIT $1),
	claimed AS (UPDATE SCHEMA.watchdog_outbox AS o
		SET tries = o.tries {+} 1, paused_at = {now}, due_at = {now} {+} ($2::bigint {*} {microsecond})
		WHERE o.id {=} ANY (ARRAY(SELECT id FROM due)) RETURNING o.*)
	SELECT o.event_id, o.aggregate_type, o.aggregate_id, o.event_type, {send}(o.created_at), o.tries, o.waited
	FROM claimed AS o JOIN due ON due.id {=} o.id ORDER BY due.due_at, o.id`

// ClaimNotices implements [session.Outbox], in one round trip. It waits for no row.
func (s *Store) ClaimNotices(ctx context.Context, most int, lasts time.Duration) ([]session.Notice, error) {
	if err := storerows.CheckClaim(most, lasts); err != nil {
		return nil, err
	}
	return ask(ctx, s, s.ofOutbox, "claim notices in", scanNotice, claimNotices, int64(most), storerows.RoundUp(lasts))
}

func scanNotice(row pgx.CollectableRow) (n session.Notice, err error) {
	var created instant
	var waited int64
	err = row.Scan(&n.ID, &n.AggregateType, &n.AggregateID, &n.Type, &created, &n.Tries, &waited)
	n.CreatedAt, n.Waited = created.Time, time.Duration(waited)*time.Microsecond
	return n, err
}

// finishNotices deletes the rows that nobody has locked, and returns what is left.
const finishNotices = `WITH free AS MATERIALIZED (
		SELECT id FROM SCHEMA.watchdog_outbox WHERE event_id {=} ANY ($1::{text}[]) ORDER BY id FOR UPDATE SKIP LOCKED),
	finished AS (DELETE FROM SCHEMA.watchdog_outbox AS o WHERE o.id {=} ANY (ARRAY(SELECT id FROM free)) RETURNING o.id)
	SELECT o.event_id FROM SCHEMA.watchdog_outbox AS o WHERE o.event_id {=} ANY ($1::{text}[])
		AND NOT EXISTS (SELECT FROM finished WHERE finished.id {=} o.id)`

// FinishNotices implements [session.Outbox], in one round trip. If another transaction has locked some of the notices,
// the others are finished, and it waits for these in one more, for at most [session.LockWait].
func (s *Store) FinishNotices(ctx context.Context, notices ...session.Notice) error {
	return s.ofOutbox(ctx, fmt.Sprintf("finish %d notices in", len(notices)), func(ctx context.Context) error {
		if len(notices) == 0 {
			return nil
		}
		left, err := query(ctx, s, pgx.RowTo[string], finishNotices, storeflow.NoticeIDs(notices))
		if err == nil && len(left) > 0 {
			_, err = query(ctx, s, pgx.RowTo[string], strings.Replace(finishNotices, " SKIP LOCKED", "", 1), left)
		}
		return err
	})
}

const delayNotice = `UPDATE SCHEMA.watchdog_outbox
	SET due_at = {now} {+} ($3::bigint {*} {microsecond}), paused_at = {now},
		waited = least(waited {+} $3::bigint, $4::bigint) WHERE event_id {=} $1 AND tries {=} $2::bigint`

// DelayNotice implements [session.Outbox], in one round trip. For a notice that another transaction has locked it waits
// for at most [session.LockWait].
func (s *Store) DelayNotice(ctx context.Context, n session.Notice, pause time.Duration) error {
	if err := storerows.CheckPause(n.ID, pause); err != nil {
		return err
	}
	return s.ofOutbox(ctx, "delay notice "+n.ID+" in", func(ctx context.Context) error {
		_, err := s.exec(ctx, delayNotice, n.ID, int64(n.Tries), storerows.RoundUp(pause), storerows.LongestWait)
		return err
	})
}

func (s *Store) ofOutbox(ctx context.Context, doing string, call func(context.Context) error) error {
	return s.write(ctx, doing, func(ctx context.Context) error {
		if !s.outbox {
			return session.ErrNoOutbox
		}
		return call(ctx)
	})
}
