package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// beginLease makes a lease, or finds one that lives and that a call before made, whose answer was lost.
const beginLease = `
	INSERT INTO SCHEMA.watchdog_leases AS l (id, host, promise, beat, clock, vouched, covered, behind, renewed_at)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8::{text}::pg_catalog.json, {now})
	ON CONFLICT (id) DO UPDATE SET looks = l.looks WHERE l.expired IS NULL RETURNING true`

// renewLease changes nothing but says that the lease lives if a later renewal overtook it.
const renewLease = `UPDATE SCHEMA.watchdog_leases SET beat = greatest(beat, $2::bigint),
		clock = CASE WHEN $2::bigint {>} beat THEN greatest(clock, $3::bigint) ELSE clock END,
		vouched = CASE WHEN $2::bigint {>} beat THEN greatest(vouched, $4::bigint) ELSE vouched END,
		covered = CASE WHEN $2::bigint {>} beat THEN greatest(covered, $5::bigint) ELSE covered END,
		behind = CASE WHEN $2::bigint {>} beat AND $5::bigint {>} 0 THEN $6::{text}::pg_catalog.json ELSE behind END,
		renewed_at = CASE WHEN $2::bigint {>} beat THEN {now} ELSE renewed_at END
	WHERE id {=} $1 AND expired IS NULL RETURNING true`

// BeginLease implements [session.Leases], in one round trip.
func (s *Store) BeginLease(ctx context.Context, l session.Lease) error {
	if err := l.Validate(); err != nil {
		return err
	}
	return s.ofLiving(ctx, "begin", l.ID, beginLease,
		l.ID, l.Host, int64(l.Promise), l.Beat, int64(l.Clock), int64(l.Vouched), int64(l.Covered), storeflow.Behind(l))
}

// RenewLease implements [session.Leases], in one round trip.
func (s *Store) RenewLease(ctx context.Context, l session.Lease) error {
	return s.ofLiving(ctx, "renew", l.ID, renewLease,
		l.ID, l.Beat, int64(l.Clock), int64(l.Vouched), int64(l.Covered), storeflow.Behind(l))
}

// ofLiving runs a statement that returns a row if the lease lives.
func (s *Store) ofLiving(ctx context.Context, doing, id, statement string, arguments ...any) error {
	return s.write(ctx, doing+" lease "+id+" in", func(ctx context.Context) error {
		var lives []bool
		one := reading(s, &lives, pgx.RowTo[bool], statement, arguments...)
		err := s.onLeaseConn(ctx, func(conn *pgx.Conn) error { return s.limited(ctx, conn, one) })
		if err == nil && len(lives) == 0 {
			err = storeflow.LeaseExpired(id)
		}
		return err
	})
}

const (
	selectLeases = `SELECT` + leaseFields + `, false FROM SCHEMA.watchdog_leases AS k ORDER BY k.id`
	leaseFields  = ` k.id, k.host, k.promise, k.beat, k.clock, k.vouched, k.covered,
		coalesce(k.behind::{text}, 'null'), {send}(k.renewed_at), k.expired IS NOT NULL`
	// observeLeases takes what it wrote to from the rows that it locked, which can be newer than its snapshot.
	observeLeases = `WITH locked AS MATERIALIZED (
		SELECT id FROM SCHEMA.watchdog_leases WHERE id {=} ANY ($1::{text}[]) AND expired IS NULL
		ORDER BY id FOR NO KEY UPDATE SKIP LOCKED),
	looked AS (UPDATE SCHEMA.watchdog_leases AS l SET looks = l.looks {+} 1 FROM locked
		WHERE l.id {=} locked.id AND l.expired IS NULL RETURNING l.*),
	untouched AS (
		SELECT * FROM SCHEMA.watchdog_leases AS l WHERE NOT EXISTS (SELECT FROM looked WHERE looked.id {=} l.id))
	SELECT` + leaseFields + `, false FROM looked AS k
	UNION ALL SELECT` + leaseFields + `, k.expired IS NULL AND k.id {=} ANY ($1::{text}[]) FROM untouched AS k ORDER BY 1`
)

// ObserveLeases implements [session.Leases], in one round trip. Without suspects it only reads. A suspect that expires
// at this moment can be returned as Locked.
func (s *Store) ObserveLeases(ctx context.Context, suspects []string) ([]session.Lease, error) {
	if len(suspects) == 0 {
		return ask(ctx, s, s.do, "look for leases in", scanLease, selectLeases)
	}
	return ask(ctx, s, s.write, "observe leases in", scanLease, observeLeases, suspects)
}

func scanLease(row pgx.CollectableRow) (l session.Lease, err error) {
	var behind string
	var renewed instant
	err = row.Scan(&l.ID, &l.Host, &l.Promise, &l.Beat, &l.Clock, &l.Vouched, &l.Covered, &behind, &renewed, &l.Expired,
		&l.Locked)
	l.RenewedAt = renewed.Time
	return l, cmp.Or(err, storeflow.ReadBehind(&l, behind))
}

const (
	// expireLease locks the lease and marks it. Attach and Freshen lock it as well while they put rows into it, so that
	// the statements after this one see all its rows. It says whether there is a lease, whether it could be locked, and
	// whether it has expired.
	expireLease = `WITH held AS MATERIALIZED (
		SELECT id, beat, expired FROM SCHEMA.watchdog_leases WHERE id {=} $1 FOR UPDATE SKIP LOCKED),
	marked AS (UPDATE SCHEMA.watchdog_leases AS l SET expired = {now}
		FROM held WHERE l.id {=} held.id AND held.expired IS NULL AND held.beat {=} $2 RETURNING l.id)
	SELECT EXISTS (SELECT FROM SCHEMA.watchdog_leases WHERE id {=} $1), EXISTS (SELECT FROM held),
		EXISTS (SELECT FROM marked) OR EXISTS (SELECT FROM held WHERE expired IS NOT NULL)`
	// leaveRows takes rows out of an expired lease. With $3 they are lost, and $4 says which lease expired. The rows are
	// locked, and so still name it; with that as a condition a planner that believes in few rows would compare each row of
	// the lease with each that is named.
	leaveRows = `WITH named AS MATERIALIZED (SELECT run_id FROM SCHEMA.watchdog_sessions WHERE lease {=} $1
		ORDER BY run_id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED)
	UPDATE SCHEMA.watchdog_sessions AS s
	SET last_event_at = greatest(s.last_event_at, ` + ofLastSign + `),` + leaveLeaseBut + `,
		lost = $3::boolean, expired_lease = $4::{text}
	FROM named WHERE s.run_id {=} named.run_id`

	deleteLease = `DELETE FROM SCHEMA.watchdog_leases WHERE id {=} $1 AND expired IS NOT NULL
		AND NOT EXISTS (SELECT FROM SCHEMA.watchdog_sessions WHERE lease {=} $1)`

	selectLeased = `SELECT s.run_id, s.attempt` + ofThisLease
	countLeased  = `SELECT pg_catalog.count(*)` + ofThisLease
	ofThisLease  = ` FROM SCHEMA.watchdog_sessions AS s WHERE s.lease {=} $1 AND s.status {=} 'active'`
)

// ExpireLease implements [session.Leases], in one transaction and four round trips.
func (s *Store) ExpireLease(ctx context.Context, l session.Lease) (expired bool, left int, err error) {
	err = s.write(ctx, "expire lease "+l.ID+" in", func(ctx context.Context) error {
		return s.inTransaction(ctx, func(t *transaction) (err error) {
			expired, left, err = t.expireLease(l)
			return err
		})
	})
	if err != nil {
		return false, 0, err
	}
	return expired, left, nil
}

type expiredRow struct{ Exists, Held, Expired bool }

func (t *transaction) expireLease(l session.Lease) (expired bool, left int, err error) {
	var found []expiredRow
	marking := reading(t.store, &found, pgx.RowToStructByPos[expiredRow], expireLease, l.ID, l.Beat)
	if err := t.send(marking); err != nil {
		return false, 0, err
	}
	switch {
	case !found[0].Exists:
		return true, 0, nil
	case !found[0].Held:
		return false, 0, session.ErrLocked
	}
	var count []int
	counting := reading(t.store, &count, pgx.RowTo[int], countLeased, l.ID)
	steps := []step{counting}
	if found[0].Expired {
		kept := storeflow.ExpiredText(l)
		leaving := running(t.store, leaveRows, l.ID, session.ExpireBatch, l.Lost, kept)
		steps = []step{leaving, counting, running(t.store, deleteLease, l.ID)}
	}
	if err := t.send(steps...); err != nil {
		return false, 0, err
	}
	return found[0].Expired, count[0], nil
}

// LeaseSessions implements [session.Leases], in one round trip.
func (s *Store) LeaseSessions(ctx context.Context, id string) ([]session.AttemptID, error) {
	return ask(ctx, s, s.do, "find the sessions of lease "+id+" in",
		pgx.RowToStructByPos[session.AttemptID], selectLeased, id)
}

const (
	insertLeaseEnds = ` INSERT INTO SCHEMA.watchdog_lease_ends (lease, run_id, attempt) `
	unlessTold      = ` ON CONFLICT DO NOTHING`
	// noticeJudged notes that a session was ended as it was judged, $1, $2 and $4, for the process of its lease.
	noticeJudged = insertLeaseEnds + `SELECT $4::{text}, run_id, $2::bigint FROM done
		WHERE $4::{text} {<>} ''` + unlessTold

	selectLeaseEnds = `SELECT run_id, attempt FROM SCHEMA.watchdog_lease_ends WHERE lease {=} $1 ORDER BY run_id, attempt`

	forgetLeaseEnds = `WITH told AS (
		DELETE FROM SCHEMA.watchdog_lease_ends AS e USING unnest($2::{text}[], $3::bigint[]) AS t (run_id, attempt)
		WHERE e.lease {=} $1 AND e.run_id {=} t.run_id AND e.attempt {=} t.attempt RETURNING e.run_id, e.attempt)
	SELECT e.run_id, e.attempt FROM SCHEMA.watchdog_lease_ends AS e
	WHERE e.lease {=} $1 AND NOT EXISTS (SELECT FROM told WHERE told.run_id {=} e.run_id AND told.attempt {=} e.attempt)
	ORDER BY e.run_id, e.attempt`
)

// Ended implements [session.Leases], in one round trip. It only reads if there is nothing to forget.
func (s *Store) Ended(ctx context.Context, lease string, told []session.AttemptID) ([]session.AttemptID, error) {
	by, statement, arguments := s.do, selectLeaseEnds, []any{lease}
	if len(told) > 0 {
		runIDs, attempts := make([]string, len(told)), make([]int64, len(told))
		for i, a := range told {
			runIDs[i], attempts[i] = a.RunID, int64(a.Attempt)
		}
		by, statement, arguments = s.write, forgetLeaseEnds, append(arguments, runIDs, attempts)
	}
	return ask(ctx, s, by, "ask for ended sessions of lease "+lease+" in",
		pgx.RowToStructByPos[session.AttemptID], statement, arguments...)
}
