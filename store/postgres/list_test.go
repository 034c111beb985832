package postgres_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

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
