package main_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// TestStartByHand: a fresh window leaves the start of a run to the sweepers, and the end of the run ends it.
func TestStartByHand(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s testStore) {
		row := s.attach(t, session.Session{RunID: "run-1", Host: "worker-1"})
		e := cancelOf("run-1", row.StartedAt)
		e.ID = (&watchdog.Stop{RunID: "run-1", StartedAt: row.StartedAt}).EventID()
		outcome, err := s.Cancel(t.Context(), row, session.CancelRequest{
			Reason: watchdog.SessionIdleTimeout, Resumes: 1, Events: []watchdog.Event{e}, StartFor: time.Hour,
		})
		require.NoError(t, err)
		require.Equal(t, session.Done, outcome)
		o := s.program(t, "resume", "run-1")
		require.Zero(t, o.status, o.stderr)
		start := s.row(t, "run-1").Start
		assert.Equal(t, e.ID, start.Key)
		assert.Equal(t, 1, start.Tries)
		assert.Contains(t, s.program(t, "sessions", "--json").stdout, `"start_tries": 1`)
		o = s.program(t, "complete", "run-1")
		require.Zero(t, o.status, o.stderr)
		assert.Zero(t, s.row(t, "run-1").Start)
		assert.EqualValues(t, "complete", s.row(t, "run-1").Reason)
	})
}
