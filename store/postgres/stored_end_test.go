package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// completing inserts the end of a run in a transaction of its own process, which has not committed.
func completing(t *testing.T, dsn, id, runID string) pgx.Tx {
	t.Helper()
	return begun(t, hostPool(t, dsn), `INSERT INTO events SELECT $1, $2, $3, $4, '{}', now()`,
		id, watchdog.AggregateType, runID, watchdog.EventComplete)
}

func cancelWithResume(id, runID string) session.CancelRequest {
	c := cancelOf(id, runID)
	resume := c.Events[0]
	resume.ID, resume.Type = "resume of "+runID, watchdog.EventResume
	c.Events, c.Resumes, c.StopFailed, c.By = []watchdog.Event{resume, c.Events[0]}, 1, true, "pass"
	return c
}

// TestCancelMeetsEnd checks that an end which commits while a cancel waits for it is written down, and nothing else.
func TestCancelMeetsEnd(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, pool := openAt(t, dsn, postgres.Config{Outbox: true}), hostPool(t, dsn)
	begin(t, s, lease1)
	cancelling := func(judged session.Session, id string) (<-chan session.Outcome, <-chan error) {
		outcomes, errs := make(chan session.Outcome, 1), make(chan error, 1)
		go func() {
			outcome, err := s.Cancel(t.Context(), judged, cancelWithResume(id, judged.RunID))
			outcomes <- outcome
			errs <- err
		}()
		waitForLock(t, pool)
		return outcomes, errs
	}
	t.Run("that commits", func(t *testing.T) {
		judged := attachLeased(t, s, lease1, "run-1")
		tx := completing(t, dsn, "end-1", "run-1")
		outcomes, errs := cancelling(judged, "end-1")
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, <-errs)
		require.Equal(t, session.EndStored, <-outcomes)
		got := sessionOf(t, s, "run-1")
		require.Equal(t, session.Finished, got.Status)
		require.EqualValues(t, "complete", got.Reason)
		require.Zero(t, got.Resumes)
		require.False(t, got.StopFailed)
		require.Empty(t, got.Lease)
		require.Equal(t, []string{"end-1"}, read(t, s), "there is no resume of it")
		ended, err := s.Ended(t.Context(), lease1, nil)
		require.NoError(t, err)
		require.Equal(t, []session.AttemptID{{RunID: "run-1", Attempt: 1}}, ended)
		require.Empty(t, texts(t, pool, "SELECT event_id FROM watchdog_outbox"))
	})
	t.Run("that is rolled back", func(t *testing.T) {
		judged := attachLeased(t, s, lease1, "run-2")
		tx := completing(t, dsn, "end-2", "run-2")
		outcomes, errs := cancelling(judged, "end-2")
		require.NoError(t, tx.Rollback(t.Context()))
		require.NoError(t, <-errs)
		require.Equal(t, session.Done, <-outcomes)
		got := sessionOf(t, s, "run-2")
		require.Equal(t, session.Cancelled, got.Status)
		require.Equal(t, 1, got.Resumes)
		require.True(t, got.StopFailed)
		require.Equal(t, "pass", got.Claim)
	})
	t.Run("that takes too long", func(t *testing.T) {
		judged := attachLeased(t, s, lease1, "run-3")
		completing(t, dsn, "end-3", "run-3")
		began := time.Now()
		_, err := s.Cancel(t.Context(), judged, cancelWithResume("end-3", "run-3"))
		require.ErrorContains(t, err, "lock_timeout")
		require.Less(t, time.Since(began), seconds)
		require.Equal(t, judged, sessionOf(t, s, "run-3"))
	})
}
