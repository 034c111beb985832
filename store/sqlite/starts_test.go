package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// toStart has a run cancelled that is to be started again.
func toStart(t *testing.T, s *sqlite.Store, runID string, claim time.Duration) session.Session {
	t.Helper()
	_, row, err := s.Attach(t.Context(), session.Session{RunID: runID, StartedAt: noon})
	require.NoError(t, err)
	e := cancels(1)[0]
	e.ID, e.AggregateID = "cancel "+runID, runID
	outcome, err := s.Cancel(t.Context(), row, session.CancelRequest{Events: []watchdog.Event{e}, StartFor: claim})
	require.NoError(t, err)
	require.Equal(t, session.Done, outcome)
	return rowOf(t, s, runID)
}

// TestStartAfterClockSetBack: a start of a clock that was days ahead is not waited for.
func TestStartAfterClockSetBack(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s, db := openAt(t, file), openPlain(t, file, "busy_timeout(10000)")
	toStart(t, s, "run-1", 20*time.Hour)
	_, err := s.ClaimStart(t.Context(), time.Hour)
	require.ErrorIs(t, err, session.ErrNotFound)
	mustExec(t, db, "UPDATE watchdog_sessions SET start_due = start_due + 86400000000")
	claimed, err := s.ClaimStart(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Equal(t, "run-1", claimed.RunID)
	_, err = s.ClaimStart(t.Context(), time.Hour)
	require.ErrorIs(t, err, session.ErrNotFound)
}
