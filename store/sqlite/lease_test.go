package sqlite_test

import (
	"database/sql"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// beginLease begins a lease with a promise of ten seconds.
func beginLease(tb testing.TB, s *sqlite.Store, id string) session.Lease {
	tb.Helper()
	l := session.Lease{ID: id, Host: "host-1", Promise: 10 * time.Second, Beat: 1}
	require.NoError(tb, s.BeginLease(tb.Context(), l))
	return l
}

// attach attaches a run in a lease.
func attach(tb testing.TB, s *sqlite.Store, runID, lease string, threshold time.Duration) session.Session {
	tb.Helper()
	_, after, err := s.Attach(tb.Context(), session.Session{
		RunID: runID, Lease: lease, Threshold: threshold, StartedAt: noon, Host: "host-1",
	})
	require.NoError(tb, err)
	return after
}

// freshen writes the activity of a run's first attempt.
func freshen(tb testing.TB, s *sqlite.Store, lease string, f session.Freshness) {
	tb.Helper()
	f.Attempt = 1
	skipped, err := s.Freshen(tb.Context(), lease, []session.Freshness{f})
	require.NoError(tb, err)
	require.Equal(tb, session.Skipped{Failed: map[string]error{}}, skipped)
}

func rowOf(tb testing.TB, s *sqlite.Store, runID string) session.Session {
	tb.Helper()
	row, err := s.Session(tb.Context(), runID)
	require.NoError(tb, err)
	return row
}

// expires expires a lease, in which so many sessions are left.
func expires(t *testing.T, s *sqlite.Store, l session.Lease, left int) {
	t.Helper()
	expired, got, err := s.ExpireLease(t.Context(), l)
	require.NoError(t, err)
	require.True(t, expired)
	require.Equal(t, left, got)
}

// Observing changes the file if there are suspects, and only then.
func TestObserve(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s := openAt(t, file)
	want := beginLease(t, s, "lease-1")
	content := func() (all []byte) {
		for _, name := range []string{file, file + "-wal"} {
			part, err := os.ReadFile(name)
			require.NoError(t, err)
			all = append(all, part...)
		}
		return all
	}
	before := content()
	plain, err := s.ObserveLeases(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, before, content(), "an observation without suspects wrote to the file")
	observed, err := s.ObserveLeases(t.Context(), []string{"lease-1", "other"})
	require.NoError(t, err)
	require.NotEqual(t, before, content(), "an observation of a suspect wrote nothing")
	want.RenewedAt = observed[0].RenewedAt
	require.Equal(t, []session.Lease{want}, observed)
	require.Equal(t, observed, plain)
	require.Equal(t, []string{"1"}, queryAll(t, openPlain(t, file), "SELECT looks FROM watchdog_leases"))
}

// A row that a trigger of the host's refuses stays in its expired lease, and the others leave it.
func TestExpireRefused(t *testing.T) {
	t.Parallel()
	s, db := openHosted(t)
	l := beginLease(t, s, "lease-1")
	for _, runID := range []string{"run-1", "run-2", "run-3"} {
		attach(t, s, runID, l.ID, 0)
	}
	mustExec(t, db, `CREATE TRIGGER refuses BEFORE UPDATE ON watchdog_sessions
		WHEN new.run_id = 'run-2' BEGIN SELECT raise(ABORT, 'CHECK constraint failed: the host keeps it'); END`)
	expires(t, s, l, 1)
	require.Equal(t, []string{"NULL", "lease-1", "NULL"}, queryAll(t, db, "SELECT lease FROM watchdog_sessions"))
	mustExec(t, db, "DROP TRIGGER refuses")
	expires(t, s, l, 0)
	require.Empty(t, queryAll(t, db, "SELECT id FROM watchdog_leases"))
}

// A lease has expired although another program keeps its sessions from leaving it: the next call takes them out.
func TestExpireLocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		holder := openOne(t, file)
		begun := -1
		s := newStore(t, hookedDatabase(t, file, func(statement string) error {
			if statement == "BEGIN IMMEDIATE" && begun >= 0 {
				if begun++; begun == 2 {
					mustExec(t, holder, statement)
				}
			}
			return nil
		}))
		l := beginLease(t, s, "lease-1")
		fillLease(t, openPlain(t, file), l.ID, session.ExpireBatch+1)
		begun = 0
		expires(t, s, l, session.ExpireBatch+1)
		mustExec(t, holder, "ROLLBACK")
		for _, want := range []int{1, 0} {
			expires(t, s, l, want)
		}
		require.Empty(t, queryAll(t, holder, "SELECT id FROM watchdog_leases"))
	})
}

// Rows leave a lease in batches, with their last activity by the database's clock.
func TestExpireBatches(t *testing.T) {
	t.Parallel()
	s, db := openBeside(t)
	l := beginLease(t, s, "lease-1")
	const runs = session.ExpireBatch + 1
	fillLease(t, db, l.ID, runs)
	mustExec(t, db, `UPDATE watchdog_leases SET clock = 10e9, renewed_at = '2026-03-04 12:00:00.000000'`,
		`UPDATE watchdog_sessions SET activity = 4000001500, last_event_at = '2020-01-01 00:00:00.000000'`)
	for _, want := range []int{1, 0, 0} {
		expires(t, s, l, want)
	}
	require.Equal(t, []string{"2026-03-04 11:59:54.000001", fmt.Sprint(runs)},
		queryAll(t, db, "SELECT last_event_at, count(*) FROM watchdog_sessions GROUP BY last_event_at"))
}

// fillLease makes rows of a lease as another program would.
func fillLease(tb testing.TB, db *sql.DB, lease string, n int) {
	tb.Helper()
	_, err := db.ExecContext(tb.Context(), `
		WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?1)
		INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, threshold, started_at, host, attempt,
			lease)
		SELECT printf('01890a5d-ac96-774b-bcce-%012d', n), 'active', ?3, ?3, 0, ?3, 'host-1', 1, ?2 FROM numbers`,
		n, lease, sqlite.FormatTime(noon))
	require.NoError(tb, err)
}

// A page ends and the next begins right also where activities differ by less than a microsecond.
func TestStalledWithinMicrosecond(t *testing.T) {
	t.Parallel()
	s, db := openBeside(t)
	l := beginLease(t, s, "lease-1")
	var want []string
	for i := range 30 {
		runID := fmt.Sprintf("run-%02d", i)
		attach(t, s, runID, l.ID, 0)
		activity := time.Hour + time.Duration(i/10)*time.Microsecond + time.Duration(9-i%10) // against the order of IDs
		freshen(t, s, l.ID, session.Freshness{RunID: runID, Activity: activity, Quiet: true})
		want = append(want, runID)
	}
	l.Beat, l.Clock, l.Vouched = 2, 3*time.Hour, 2*time.Hour
	require.NoError(t, s.RenewLease(t.Context(), l))
	mustExec(t, db, "UPDATE watchdog_leases SET clock = clock / 1000 * 1000")
	for limit := 1; limit < 12; limit++ {
		q := session.Query{Threshold: 10 * time.Minute, Limit: limit}
		var got []string
		for range 40 {
			page, err := s.Stalled(t.Context(), q)
			require.NoError(t, err)
			for _, one := range page.Sessions {
				got = append(got, one.RunID)
				require.Greater(t, one.Silence, 59*time.Minute)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		require.Equal(t, want, got, "pages of %d", limit)
	}
}

// A row of a lease that cannot be read is reported once, and is not stalled.
func TestUnreadableLeased(t *testing.T) {
	t.Parallel()
	for column, value := range map[string]string{
		"last_event_at": "'yesterday'", "created_at": "'now'", "threshold": "-1",
		"started_at": "'noon'", "state": "'no JSON'", "warned_lease": "'x'",
	} {
		t.Run(column, func(t *testing.T) {
			s, db := openBeside(t)
			l := beginLease(t, s, "lease-1")
			attach(t, s, "run-1", l.ID, 0)
			freshen(t, s, l.ID, session.Freshness{RunID: "run-1", Activity: time.Second, Quiet: true})
			l.Beat, l.Clock, l.Vouched = 2, time.Hour, time.Hour
			require.NoError(t, s.RenewLease(t.Context(), l))
			page, err := s.Stalled(t.Context(), session.Query{Threshold: time.Minute, Limit: 10})
			require.NoError(t, err)
			require.Len(t, page.Sessions, 1)
			mustExec(t, db, "UPDATE watchdog_sessions SET "+column+" = "+value)
			page, err = s.Stalled(t.Context(), session.Query{Threshold: time.Minute, Limit: 10})
			require.NoError(t, err)
			if column == "warned_lease" {
				require.Len(t, page.Sessions, 1)
				return
			}
			require.Empty(t, page.Sessions)
			require.Len(t, page.Unreadable, 1)
			isUnreadable(t, page.Unreadable[0], "run-1")
			freshen(t, s, l.ID, session.Freshness{RunID: "run-1", Activity: 2 * time.Second})
			_, err = s.Session(t.Context(), "run-1")
			isUnreadable(t, err, "run-1")
		})
	}
}

// Signs of life of a busy session write no index entry, and none of a quiet one is lost.
func TestQuietColumns(t *testing.T) {
	t.Parallel()
	s, db := openBeside(t)
	beginLease(t, s, "lease-1")
	for runID, threshold := range map[string]time.Duration{"run-1": 0, "run-2": time.Hour, "run-3": watchdog.NoLimit} {
		attach(t, s, runID, "lease-1", threshold)
	}
	columns := func() []string {
		return queryAll(t, db, "SELECT activity, quiet_since, quiet_due FROM watchdog_sessions ORDER BY run_id")
	}
	all := func(activity time.Duration, quiet bool) {
		for _, runID := range []string{"run-1", "run-2", "run-3"} {
			freshen(t, s, "lease-1", session.Freshness{RunID: runID, Activity: activity, Quiet: quiet})
		}
	}
	all(session.NoActivity, false)
	require.Equal(t, []string{"NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL"}, columns())
	all(5, false)
	require.Equal(t, []string{"5", "NULL", "NULL", "5", "NULL", "NULL", "5", "NULL", "NULL"}, columns())
	all(5, true)
	require.Equal(t, []string{
		"5", "5", "NULL", "5", "NULL", "3600000000005", "5", "NULL", "9223372036854775807",
	}, columns())
	all(4, false)
	require.Equal(t, "5", columns()[1], "an earlier activity changed a row")
	all(6, false)
	require.Equal(t, []string{"6", "NULL", "NULL", "6", "NULL", "NULL", "6", "NULL", "NULL"}, columns())
}

// A lease that sessions name is deleted by nobody, and any other by everyone.
func TestDeleteLease(t *testing.T) {
	t.Parallel()
	s, db := openBeside(t)
	beginLease(t, s, "lease-1")
	beginLease(t, s, "lease-2")
	attach(t, s, "run-1", "lease-1", 0)
	_, err := db.ExecContext(t.Context(), "DELETE FROM watchdog_leases WHERE id = 'lease-1'")
	require.ErrorContains(t, err, "active sessions name this lease")
	mustExec(t, db, "DELETE FROM watchdog_leases WHERE id = 'lease-2'")
	skipped, err := s.End(t.Context(), []session.Ending{{RunID: "run-1", Attempt: 1, Status: session.Finished}})
	require.NoError(t, err)
	require.Empty(t, skipped.Locked)
	mustExec(t, db, "DELETE FROM watchdog_leases")
}

// Of two activities of one attempt in a batch that are equal the later one counts.
func TestFreshenEqual(t *testing.T) {
	t.Parallel()
	s := newStore(t, openPlain(t, newFile(t)))
	beginLease(t, s, "lease-1")
	attach(t, s, "run-1", "lease-1", 0)
	require.NoError(t, s.RenewLease(t.Context(), session.Lease{ID: "lease-1", Beat: 2, Vouched: time.Hour}))
	f := session.Freshness{RunID: "run-1", Attempt: 1, Activity: time.Minute}
	quiet := f
	quiet.Quiet = true
	for _, c := range []struct {
		fresh   []session.Freshness
		silence time.Duration
	}{{[]session.Freshness{f, quiet}, 59 * time.Minute}, {[]session.Freshness{quiet, f}, 0}} {
		require.NoError(t, second(s.Freshen(t.Context(), "lease-1", c.fresh)))
		require.Equal(t, c.silence, rowOf(t, s, "run-1").Silence)
	}
}
