package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// showing puts a view in the place of the sessions, in which some columns are computed. Only so can a row be exactly at
// a limit: the database's clock goes on between two statements, and stands still in one.
func showing(t *testing.T, pool *pgxpool.Pool, computed map[string]string) {
	t.Helper()
	var columns []string
	for _, name := range texts(t, pool, `SELECT column_name FROM information_schema.columns
		WHERE table_name = 'watchdog_sessions' ORDER BY ordinal_position`) {
		column := "r." + name
		if expression, found := computed[name]; found {
			column = expression + " AS " + name
		}
		columns = append(columns, column)
	}
	mustExec(t, pool, "ALTER TABLE watchdog_sessions RENAME TO kept_sessions",
		"CREATE VIEW watchdog_sessions AS SELECT "+strings.Join(columns, ", ")+" FROM kept_sessions AS r")
}

// TestStalledAtLimit checks each comparison with the database's clock at the limit itself, and a microsecond from it:
// run-0 is at the limit, and run-1 has one microsecond more of it.
func TestStalledAtLimit(t *testing.T) {
	t.Parallel()
	const (
		longAgo = `statement_timestamp() - interval '1 day'`
		age     = `statement_timestamp() - interval '2 minutes' + r.resumes * interval '1 microsecond'`
	)
	for name, c := range map[string]struct {
		own      time.Duration
		leased   bool
		computed map[string]string
		want     string
	}{
		"is not stalled at the query's threshold": {
			computed: map[string]string{
				"created_at": longAgo,
				"silent":     `statement_timestamp() - interval '10 minutes' - r.resumes * interval '1 microsecond'`,
			}, want: "run-1",
		},
		"is not stalled at its own threshold": {
			own: time.Hour,
			computed: map[string]string{
				"created_at": longAgo, "due": `statement_timestamp() - r.resumes * interval '1 microsecond'`,
			}, want: "run-1",
		},
		"is old enough at the minimum age": {
			computed: map[string]string{"created_at": age, "silent": longAgo}, want: "run-0",
		},
		"is old enough at the minimum age, with a threshold of its own": {
			own: time.Hour, computed: map[string]string{"created_at": age, "due": longAgo}, want: "run-0",
		},
		"is old enough at the minimum age, in a lease": {
			leased: true, computed: map[string]string{"created_at": age}, want: "run-0",
		},
		"is old enough at the minimum age, in a lease with a threshold of its own": {
			own: time.Hour, leased: true, computed: map[string]string{"created_at": age}, want: "run-0",
		},
	} {
		t.Run("a session "+name, func(t *testing.T) {
			dsn := newDSN(t)
			s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
			l := begin(t, s, lease1)
			l.Beat, l.Vouched = l.Beat+1, 24*time.Hour
			require.NoError(t, s.RenewLease(t.Context(), l))
			for i := range 2 {
				run := session.Session{RunID: fmt.Sprint("run-", i), StartedAt: noon, Threshold: c.own}
				if c.leased {
					run.Lease = lease1
				}
				_, _, err := s.Attach(t.Context(), run)
				require.NoError(t, err)
				mustExec(t, pool, fmt.Sprintf("UPDATE watchdog_sessions SET resumes = %d WHERE run_id = 'run-%[1]d'", i))
				if c.leased {
					f := session.Freshness{RunID: run.RunID, Attempt: 1, Activity: time.Hour, Quiet: true}
					_, err := s.Freshen(t.Context(), lease1, []session.Freshness{f})
					require.NoError(t, err)
				}
			}
			showing(t, pool, c.computed)
			page, err := s.Stalled(t.Context(), session.Query{Threshold: 10 * time.Minute, MinAge: 2 * time.Minute, Limit: 10})
			require.NoError(t, err)
			require.Len(t, page.Sessions, 1)
			assert.Equal(t, c.want, page.Sessions[0].RunID)
		})
	}
}

// A claim is over at its end.
func TestClaimAtItsEnd(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]session.Outcome{
		"statement_timestamp()":                            session.Done,
		"statement_timestamp() + interval '1 microsecond'": session.Taken,
	} {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
		judged := attach(t, s, "run-1")
		showing(t, pool, map[string]string{"claim": "'pass'", "claimed_until": at})
		outcome, err := s.Warn(t.Context(), judged, []watchdog.Event{numbered(1)})
		require.NoError(t, err)
		assert.Equal(t, want, outcome, at)
	}
}

// TestReadableTimes checks that a row is readable as far as Go can read its times, and not a microsecond further.
func TestReadableTimes(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	mustExec(t, pool, `INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, attempt)
		VALUES ('run-1', 'active', now(), now(), now(), 0)`)
	for _, column := range []string{"created_at", "last_event_at", "started_at"} {
		for at, readable := range map[string]bool{
			"0001-01-01 00:00:00+00": true, "9999-12-31 23:59:59.999999+00": true,
			"0001-12-31 23:59:59.999999+00 BC": false, "10000-01-01 00:00:00+00": false,
			"infinity": false, "-infinity": false,
		} {
			mustExec(t, pool, fmt.Sprintf("UPDATE watchdog_sessions SET %s = '%s'", column, at))
			_, err := s.Session(t.Context(), "run-1")
			if readable {
				assert.NoError(t, err, "%s %s", column, at)
			} else {
				assert.ErrorIs(t, err, session.ErrUnreadable, "%s %s", column, at)
			}
		}
		mustExec(t, pool, fmt.Sprintf("UPDATE watchdog_sessions SET %s = now()", column))
	}
}

// TestReadableEnd checks that an end whose time Go cannot read is told without one, and to a microsecond no other.
func TestReadableEnd(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	mustExec(t, pool, `INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, attempt)
		VALUES ('run-1', 'finished', now(), now(), now(), 0)`)
	for at, readable := range map[string]bool{
		"0001-01-01 00:00:00.000001+00": true, "9999-12-31 23:59:59.999999+00": true,
		"0001-12-31 23:59:59.999999+00 BC": false, "10000-01-01 00:00:00+00": false,
		"infinity": false, "-infinity": false,
	} {
		mustExec(t, pool, fmt.Sprintf("UPDATE watchdog_sessions SET ended_at = '%s'", at))
		found, err := s.Session(t.Context(), "run-1")
		require.NoError(t, err)
		assert.Equal(t, readable, !found.EndedAt.IsZero(), at)
	}
}

// Rows that cannot be read, and seem to have been silent for long, keep no other from being found.
func TestUnreadableAndSilent(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	l := begin(t, s, lease1)
	l.Beat, l.Vouched = l.Beat+1, 24*time.Hour
	require.NoError(t, s.RenewLease(t.Context(), l))
	for i, own := range []time.Duration{0, time.Hour, 0, time.Hour, 0} {
		run := session.Session{RunID: fmt.Sprint("run-", i), StartedAt: noon, Threshold: own}
		if i == 2 || i == 3 {
			run.Lease = lease1
		}
		_, _, err := s.Attach(t.Context(), run)
		require.NoError(t, err)
	}
	_, err := s.Freshen(t.Context(), lease1, []session.Freshness{
		{RunID: "run-2", Attempt: 1, Quiet: true}, {RunID: "run-3", Attempt: 1, Quiet: true},
	})
	require.NoError(t, err)
	mustExec(t, pool, `UPDATE watchdog_sessions SET created_at = now() - interval '2 days',
			last_event_at = now() - interval '1 day'`,
		`UPDATE watchdog_sessions SET started_at = 'infinity' WHERE run_id <> 'run-4'`)
	page, err := s.Stalled(t.Context(), session.Query{Threshold: 10 * time.Minute, Limit: 10})
	require.NoError(t, err)
	assert.Len(t, page.Unreadable, 4)
	require.Len(t, page.Sessions, 1)
	assert.Equal(t, "run-4", page.Sessions[0].RunID)
}

// TestList compares the pages of lists with those of the plain store.
func TestList(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s := newPutter(t, dsn, dsn)
	plain := &session.Memory{}
	var rows []session.Session
	statuses := []session.Status{session.Active, session.Cancelled, session.Interrupted, session.Finished}
	for i := range 120 {
		rows = append(rows, session.Session{
			RunID: fmt.Sprintf("run-%03d", i*7%120), Status: statuses[i%4], CreatedAt: noon.Add(time.Duration(i/5) * time.Microsecond),
			StartedAt: noon, Attempt: 1, Host: fmt.Sprint("host-", i%3), Parent: []string{"", "run-1"}[i/2%2],
			Reason: watchdog.StopReason([]string{"", "a"}[i/3%2]),
		})
	}
	require.NoError(t, s.Put(t.Context(), rows...))
	require.NoError(t, plain.Put(t.Context(), rows...))
	for _, runID := range []string{"run-004", "run-050"} {
		require.NoError(t, s.Spoil(t.Context(), runID))
		require.NoError(t, plain.Spoil(t.Context(), runID))
	}
	for bits := range 32 {
		q := session.ListQuery{Live: bits&1 > 0, Ended: bits&2 > 0}
		if bits&4 > 0 {
			q.Parent = "run-1"
		}
		if bits&8 > 0 {
			q.Host = "host-1"
		}
		if bits&16 > 0 {
			q.Reason = "a"
		}
		for _, limit := range []int{1, 7, 200} {
			q.Limit = limit
			assert.Equal(t, listed(t, plain, q), listed(t, s, q), "%+v", q)
		}
	}
	_, err := s.List(t.Context(), session.ListQuery{})
	require.ErrorContains(t, err, "at least 1")
	_, err = s.List(t.Context(), session.ListQuery{Limit: 1, After: "nonsense"})
	require.ErrorContains(t, err, "nonsense")
}

// TestListOfOddTimes checks that a list has each row once, and ends, whatever the times of other writers.
func TestListOfOddTimes(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s := newPutter(t, dsn, dsn)
	var want []string
	for i, at := range []string{"infinity", "infinity", "200000-01-01", "2026-01-01", "4000-01-01 BC", "-infinity", "-infinity"} {
		mustExec(t, s.pool, fmt.Sprintf(`INSERT INTO watchdog_sessions (run_id, status, created_at, started_at, attempt)
			VALUES ('run-%d', 'active', '%s', now(), 1)`, i, at))
		want = append(want, fmt.Sprint("run-", i))
	}
	for _, limit := range []int{1, 2, 3} {
		got := listed(t, s, session.ListQuery{Limit: limit})
		slices.Sort(got)
		assert.Equal(t, want, got)
	}
}

// listed returns the run IDs of all pages, at most a thousand of them.
func listed(t *testing.T, s session.Lister, q session.ListQuery) (runIDs []string) {
	t.Helper()
	for pages := 0; pages == 0 || q.After != "" && pages < 1000; pages++ {
		page, err := s.List(t.Context(), q)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Sessions)+len(page.Unreadable), q.Limit)
		assert.False(t, page.Now.IsZero())
		for _, one := range page.Sessions {
			runIDs = append(runIDs, one.RunID)
		}
		for _, err := range page.Unreadable {
			require.ErrorIs(t, err, session.ErrUnreadable)
			var runID string
			_, scanErr := fmt.Sscanf(err.Error(), "unreadable session: run run-%s", &runID)
			require.NoError(t, scanErr)
			runIDs = append(runIDs, "run-"+runID[:len(runID)-1])
		}
		q.After = page.Next
	}
	return runIDs
}

// A row of which another program says how it ended has no time of that, also if the attempt before had one.
func TestEndOfAnotherProgram(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	attach(t, s, "run-1")
	_, err := s.End(t.Context(), []session.Ending{{RunID: "run-1", Attempt: 1, Status: session.Finished}})
	require.NoError(t, err)
	require.NotZero(t, sessionOf(t, s, "run-1").EndedAt)
	attach(t, s, "run-1")
	mustExec(t, pool, "UPDATE watchdog_sessions SET status = 'cancelled'")
	require.Zero(t, sessionOf(t, s, "run-1").EndedAt)
}
