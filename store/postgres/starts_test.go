package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// toStart has a run cancelled that is to be started again.
func toStart(t *testing.T, s *postgres.Store, runID string, claim time.Duration) session.Session {
	t.Helper()
	c := cancelOf("cancel "+runID, runID)
	c.StartFor = claim
	outcome, err := s.Cancel(t.Context(), attach(t, s, runID), c)
	require.NoError(t, err)
	require.Equal(t, session.Done, outcome)
	return startRow(t, s, runID)
}

func startRow(t *testing.T, s *postgres.Store, runID string) session.Session {
	t.Helper()
	row, err := s.Session(t.Context(), runID)
	require.NoError(t, err)
	return row
}

// TestStartBesideBefore: a program of a version that knows no starts leaves them as they are when it attaches, and they
// are void then.
func TestStartBesideBefore(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, db := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	before := toStart(t, s, "run-1", time.Hour)
	require.Equal(t, "cancel run-1", before.Start.Key)
	mustExec(t, db, "UPDATE watchdog_sessions SET start_due = now(), attempt = attempt + 1, status = 'active'")
	require.Zero(t, startRow(t, s, "run-1").Start)
	mustExec(t, db, "UPDATE watchdog_sessions SET status = 'cancelled'")
	require.Zero(t, startRow(t, s, "run-1").Start)
	_, err := s.ClaimStart(t.Context(), time.Hour)
	require.ErrorIs(t, err, session.ErrNotFound)
	done, err := s.PutOffStart(t.Context(), before, time.Hour)
	require.NoError(t, err)
	require.False(t, done)
}

// TestStartColumnsAdded: a table of version 6 gets the columns, and its rows want no start.
func TestStartColumnsAdded(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, db := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	toStart(t, s, "run-1", 0)
	require.NoError(t, s.Close())
	mustExec(t, db, "DELETE FROM watchdog_schema WHERE version = 7", `ALTER TABLE watchdog_sessions
		DROP COLUMN start_key, DROP COLUMN start_attempt, DROP COLUMN start_tries, DROP COLUMN start_due`)
	s = openAt(t, dsn, postgres.Config{})
	require.Zero(t, startRow(t, s, "run-1").Start)
	toStart(t, s, "run-2", time.Nanosecond)
	require.Eventually(t, func() bool {
		claimed, err := s.ClaimStart(t.Context(), time.Hour)
		return err == nil && claimed.RunID == "run-2" && claimed.Start.Tries == 2
	}, 10*time.Second, time.Millisecond)
}

// TestStartAfterClockSetBack: a start of a clock that was days ahead is not waited for.
func TestStartAfterClockSetBack(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, db := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	toStart(t, s, "run-1", 20*time.Hour)
	_, err := s.ClaimStart(t.Context(), time.Hour)
	require.ErrorIs(t, err, session.ErrNotFound)
	mustExec(t, db, "UPDATE watchdog_sessions SET start_due = start_due + interval '1 day'")
	claimed, err := s.ClaimStart(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Equal(t, "run-1", claimed.RunID)
	_, err = s.ClaimStart(t.Context(), time.Hour)
	require.ErrorIs(t, err, session.ErrNotFound)
}
