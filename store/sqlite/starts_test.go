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

// TestStartBesideBefore: a program of a version that knows no starts leaves them as they are when it attaches, and they
// are void then.
func TestStartBesideBefore(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s, db := openAt(t, file), openPlain(t, file, "busy_timeout(10000)")
	before := toStart(t, s, "run-1", time.Hour)
	require.Equal(t, "cancel run-1", before.Start.Key)
	mustExec(t, db, "UPDATE watchdog_sessions SET start_due = 0, attempt = attempt + 1, status = 'active'")
	require.Zero(t, rowOf(t, s, "run-1").Start)
	mustExec(t, db, "UPDATE watchdog_sessions SET status = 'cancelled'")
	require.Zero(t, rowOf(t, s, "run-1").Start)
	_, err := s.ClaimStart(t.Context(), time.Hour)
	require.ErrorIs(t, err, session.ErrNotFound)
	done, err := s.PutOffStart(t.Context(), before, time.Hour)
	require.NoError(t, err)
	require.False(t, done)
}

// TestStartColumnsAdded: a table of version 6 gets the columns, and its rows want no start.
func TestStartColumnsAdded(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s, db := openAt(t, file), openPlain(t, file, "busy_timeout(10000)")
	toStart(t, s, "run-1", 0)
	require.NoError(t, s.Close())
	mustExec(t, db, "DELETE FROM watchdog_schema WHERE version = 7", "DROP INDEX watchdog_sessions_start")
	for _, column := range []string{"start_key", "start_attempt", "start_tries", "start_due"} {
		mustExec(t, db, "ALTER TABLE watchdog_sessions DROP COLUMN "+column)
	}
	s = openAt(t, file)
	require.Zero(t, rowOf(t, s, "run-1").Start)
	toStart(t, s, "run-2", time.Nanosecond)
	require.Eventually(t, func() bool {
		claimed, err := s.ClaimStart(t.Context(), time.Hour)
		return err == nil && claimed.RunID == "run-2" && claimed.Start.Tries == 2
	}, 10*time.Second, time.Millisecond)
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
