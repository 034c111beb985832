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
