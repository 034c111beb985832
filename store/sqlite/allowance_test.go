package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
)

// What programs that know no allowance find, and write when they take a run over.
const (
	foundWithout = `
	SELECT run_id FROM watchdog_sessions, watchdog_leases WHERE id = lease AND leased = attempt AND status = 'active'
		AND (quiet_since < vouched - 5e9 OR quiet_due < vouched AND vouched - activity > own_threshold)`
	takenOver = `
	UPDATE watchdog_sessions SET attempt = 2, leased = 2, own_threshold = 7200000000000, activity = NULL,
		quiet_since = NULL, quiet_due = NULL`
)

// TestAllowanceBefore checks that sweepers which know no allowance do not end a run sooner, and that the allowance of an
// attempt which a process of their version followed is void.
func TestAllowanceBefore(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s, db := openAt(t, file), openPlain(t, file, "busy_timeout(10000)")
	l := beginLease(t, s, "lease-1")
	row := session.Session{
		RunID: "run-1", Lease: l.ID, StartedAt: noon, Host: "host-1", Allowance: time.Minute, Threshold: time.Hour,
	}
	_, _, err := s.Attach(t.Context(), row)
	require.NoError(t, err)
	freshen(t, s, l.ID, session.Freshness{
		RunID: "run-1", Activity: time.Second, Quiet: true, Allowance: time.Minute, Threshold: time.Hour,
	})
	found := func(vouched time.Duration) (with, without int) {
		l.Beat, l.Clock, l.Vouched = l.Beat+1, vouched, vouched
		require.NoError(t, s.RenewLease(t.Context(), l))
		page, err := s.Stalled(t.Context(), session.Query{Threshold: 5 * time.Second, Limit: 10})
		require.NoError(t, err)
		return len(page.Sessions), len(queryAll(t, db, foundWithout))
	}
	for _, c := range []struct {
		vouched       time.Duration
		with, without int
	}{{time.Minute + time.Second, 0, 0}, {time.Minute + 2*time.Second, 1, 0}, {time.Hour + 2*time.Second, 1, 1}} {
		with, without := found(c.vouched)
		assert.Equal(t, []int{c.with, c.without}, []int{with, without}, "%v", c.vouched)
	}
	mustExec(t, db, takenOver)
	after, err := s.Session(t.Context(), "run-1")
	require.NoError(t, err)
	assert.Zero(t, after.Allowance)
	assert.Equal(t, 2*time.Hour, after.Threshold)
}
