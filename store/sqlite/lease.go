package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

const insertLease = `
	INSERT INTO main.watchdog_leases (id, host, promise, beat, clock, vouched, covered, behind, renewed_at)
	VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ` + databaseTime + `) ON CONFLICT (id) DO NOTHING`

// BeginLease implements [session.Store].
func (s *Store) BeginLease(ctx context.Context, l session.Lease) error {
	if err := l.Validate(); err != nil {
		return err
	}
	return s.change(ctx, "begin lease "+l.ID, 1, func(t *transaction) {
		if t.do(insertLease, l.ID, l.Host, int64(l.Promise), l.Beat, int64(l.Clock), int64(l.Vouched), int64(l.Covered),
			storeflow.Behind(l)) == 0 {
			t.living(l.ID)
		}
	})
}

const renewLease = `UPDATE main.watchdog_leases
	SET beat = ?2, clock = max(clock, ?3), vouched = max(vouched, ?4), covered = max(covered, ?5),
		behind = CASE WHEN ?5 > 0 THEN ?6 ELSE behind END, renewed_at = ` + databaseTime + `
	WHERE id = ?1 AND beat < ?2 AND expired IS NULL`

// RenewLease implements [session.Store].
func (s *Store) RenewLease(ctx context.Context, l session.Lease) error {
	renewal := newRequest(1, func(t *transaction) {
		if t.do(renewLease, l.ID, l.Beat, int64(l.Clock), int64(l.Vouched), int64(l.Covered), storeflow.Behind(l)) == 0 {
			t.living(l.ID)
		}
	})
	renewal.one = true
	return s.commit(ctx, "renew lease "+l.ID, renewal)
}

const selectExpired = `SELECT expired IS NOT NULL, beat FROM main.watchdog_leases WHERE id = ?1`

func (t *transaction) living(id string) {
	var expired bool
	if !t.look(selectExpired, []any{id}, &expired, new(int64)) || expired {
		t.fail(storeflow.LeaseExpired(id))
	}
}

const (
	// observeLeases changes the leases that are observed, so that a database that cannot be written to observes none.
	observeLeases = `
	UPDATE main.watchdog_leases SET looks = looks + 1 WHERE id IN (SELECT value FROM json_each(?1)) AND expired IS NULL`

	selectLeases = `SELECT id, host, promise, beat, clock, vouched, covered, coalesce(behind, 'null'),
		renewed_at, expired IS NOT NULL FROM main.watchdog_leases ORDER BY id`
)

// ObserveLeases implements [session.Store]. Without suspects it only reads. No lease is locked by itself: if another
// program has locked the database for too long, that is an error.
func (s *Store) ObserveLeases(ctx context.Context, suspects []string) ([]session.Lease, error) {
	if len(suspects) == 0 {
		return readRows(ctx, s, "leases", scanLease, selectLeases)
	}
	doing := fmt.Sprintf("observe %d leases", len(suspects))
	return changed(ctx, s, doing, len(suspects), func(t *transaction) []session.Lease {
		t.do(observeLeases, jsonArray(suspects))
		return rowsIn(t, scanLease, selectLeases)
	})
}

func scanLease(rows *sql.Rows) (l session.Lease, err error) {
	var renewed, behind string
	err = rows.Scan(&l.ID, &l.Host, &l.Promise, &l.Beat, &l.Clock, &l.Vouched, &l.Covered, &behind, &renewed, &l.Expired)
	if err != nil {
		return l, err
	}
	if l.RenewedAt, err = time.Parse(timeLayout, renewed); err != nil {
		return l, fmt.Errorf("lease %s: column renewed_at: %w", l.ID, err)
	}
	return l, storeflow.ReadBehind(&l, behind)
}

const (
	expireLease = `UPDATE main.watchdog_leases SET expired = ` + databaseTime + ` WHERE id = ?1 AND expired IS NULL`
	deleteLease = `DELETE FROM main.watchdog_leases WHERE id = ?1`

	ofLease      = ` FROM main.watchdog_sessions INDEXED BY watchdog_sessions_lease WHERE ` + isLeased + ` AND lease = ?1`
	selectLeased = `SELECT run_id` + ofLease + ` ORDER BY run_id LIMIT ?2`
	countLeased  = `SELECT count(*)` + ofLease
	// leftAt is the last activity by the database's clock, as it was when the lease was renewed.
	leftAt = `CASE WHEN lease IS NOT NULL AND activity IS NOT NULL THEN (
			SELECT strftime('%Y-%m-%d %H:%M:%S', at / 1000000, 'unixepoch') || printf('.%06d', at % 1000000)
			FROM (SELECT (epoch + activity) / 1000 AS at FROM main.watchdog_leases WHERE id = lease)) END`
	// leave takes a row out of its lease, if it is in one. Its last event is at least ?3.
	leave    = leaveBut + `, lost = NULL`
	leaveBut = `last_event_at = nullif(max(coalesce(last_event_at, ''), coalesce(` + leftAt + `, ''), ?3), ''),
		lease = NULL, activity = NULL, quiet_since = NULL, quiet_due = NULL, allowance = NULL`
	// leaveRows makes rows lost if ?4 says so, and notes in them which lease expired, ?5. The + keeps SQLite from using an
	// index of the status: it would prefer one to the primary key.
	leaveRows = `UPDATE main.watchdog_sessions SET ` + leaveBut + `, lost = nullif(?4, 0), expired_lease = ?5
	WHERE run_id IN (SELECT value FROM json_each(?1)) AND +lease = ?2 AND +status = 'active'`
)

// ExpireLease implements [session.Store]. It expires the lease first, and takes sessions out of it in a second
// transaction, so that rows that the database refuses do not keep it alive. They stay in it, and count as left, as all
// do if another program keeps the database locked meanwhile.
func (s *Store) ExpireLease(ctx context.Context, l session.Lease) (bool, int, error) {
	e, err := changed(ctx, s, "expire lease "+l.ID, 1, func(t *transaction) expiry { return t.expire(l) })
	if err != nil || len(e.runIDs) == 0 {
		return e.expired, e.left, lockedError(err)
	}
	kept := storeflow.ExpiredText(l)
	itself := func(runID string) string { return runID }
	_, err = storeflow.WriteEach(e.runIDs, itself, func(part []string) (err error) {
		doing := fmt.Sprintf("take %d sessions out of lease %s", len(part), l.ID)
		e.left, err = changed(ctx, s, doing, len(part), func(t *transaction) (left int) {
			t.do(leaveRows, jsonArray(part), l.ID, "", l.Lost, kept)
			if t.look(countLeased, []any{l.ID}, &left); left == 0 {
				t.do(deleteLease, l.ID)
			}
			return left
		})
		return err
	}, isRefusal)
	switch {
	case err == nil:
		return true, e.left, nil
	case !isBusy(err):
		return false, 0, err
	}
	// The next call takes them out.
	counts, err := readRows(ctx, s, "the sessions of lease "+l.ID, scanOne[int], countLeased, l.ID)
	if err != nil {
		counts = []int{len(e.runIDs)} // what is known
	}
	return true, counts[0], nil
}

// An expiry is what became of a lease: whether it has expired, and how many sessions are in it, or which are to leave.
type expiry struct {
	expired bool
	left    int
	runIDs  []string
}

func (t *transaction) expire(l session.Lease) (e expiry) {
	var beat int64
	if !t.look(selectExpired, []any{l.ID}, &e.expired, &beat) {
		return expiry{expired: true}
	}
	if !e.expired && beat != l.Beat {
		t.look(countLeased, []any{l.ID}, &e.left)
		return e
	}
	t.do(expireLease, l.ID)
	e.expired, e.runIDs = true, rowsIn(t, scanOne[string], selectLeased, l.ID, session.ExpireBatch)
	if len(e.runIDs) == 0 {
		t.do(deleteLease, l.ID)
	}
	return e
}

const selectAttempts = `SELECT run_id, attempt` + ofLease

// LeaseSessions implements [session.Store].
func (s *Store) LeaseSessions(ctx context.Context, id string) ([]session.AttemptID, error) {
	return readRows(ctx, s, "the sessions of lease "+id, scanAttempt, selectAttempts, id)
}

// dropLeaseEnds has the ends go with the lease, also where a program deletes it that does not know them. SQLite would
// heed a foreign key only for programs that ask for it.
const dropLeaseEnds = `
	CREATE TRIGGER IF NOT EXISTS main.watchdog_lease_ends_untold AFTER DELETE ON watchdog_leases BEGIN
		DELETE FROM watchdog_lease_ends WHERE lease = old.id;
	END`

const (
	insertLeaseEnd = `INSERT INTO main.watchdog_lease_ends (lease, run_id, attempt)
	SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM main.watchdog_leases WHERE id = ?1) ON CONFLICT DO NOTHING`

	forgetLeaseEnd  = `DELETE FROM main.watchdog_lease_ends WHERE lease = ?1 AND run_id = ?2 AND attempt = ?3`
	selectLeaseEnds = `SELECT run_id, attempt FROM main.watchdog_lease_ends WHERE lease = ?1 ORDER BY run_id, attempt`
)

// noteEnd notes for its lease that somebody else ends a session.
func (t *transaction) noteEnd(s session.Session) {
	if s.Lease != "" {
		t.do(insertLeaseEnd, s.Lease, s.RunID, s.Attempt)
	}
}

// Ended implements [session.Leases]. It only reads if there is nothing to forget.
func (s *Store) Ended(ctx context.Context, lease string, told []session.AttemptID) ([]session.AttemptID, error) {
	if len(told) == 0 {
		return readRows(ctx, s, "the ends of lease "+lease, scanAttempt, selectLeaseEnds, lease)
	}
	return changed(ctx, s, "forget ends of lease "+lease, len(told), func(t *transaction) []session.AttemptID {
		for _, a := range told {
			t.do(forgetLeaseEnd, lease, a.RunID, a.Attempt)
		}
		return rowsIn(t, scanAttempt, selectLeaseEnds, lease)
	})
}

func scanAttempt(rows *sql.Rows) (a session.AttemptID, err error) {
	err = rows.Scan(&a.RunID, &a.Attempt)
	return a, err
}
