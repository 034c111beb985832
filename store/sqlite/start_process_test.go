package sqlite_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
	"github.com/seed62658d38/watchdog/sweep"
)

// resuming sweeps a database, and attaches to each run that it starts and of which told says so.
func resuming(s *sqlite.Store, told func(s session.Session) bool) (*sweep.Sweeper, error) {
	return sweep.New(s, s, sweep.Config{
		Interval: 10 * time.Millisecond, StalledThreshold: time.Minute, StartupDelay: watchdog.None,
		MaxCancellationsPerRun: watchdog.NoLimit, StopTimeout: time.Minute, RecordTimeout: time.Minute,
		Logger: slog.New(slog.DiscardHandler),
		Resume: sweep.ResumePolicy{Max: 1, Tries: 1000, Start: func(ctx context.Context, run session.Session) error {
			if !told(run) {
				return nil
			}
			_, _, err := s.Attach(ctx, session.Session{RunID: run.RunID, StartedAt: noon, Threshold: watchdog.NoLimit})
			return err
		}},
	})
}

// resumeUntilKilled is a process that prints which runs it starts. It attaches to every other one at its second try,
// and to the others never, so that there is always one to start.
func resumeUntilKilled(file string) error {
	s, err := sqlite.Open(context.Background(), file)
	if err != nil {
		return err
	}
	sweeper, err := resuming(s, func(run session.Session) bool {
		fmt.Println("starts", run.RunID+"="+run.Start.Key)
		return run.Start.Tries%2 == 0 && strings.HasSuffix(run.RunID, "even")
	})
	if err != nil {
		return err
	}
	return sweeper.Run(context.Background())
}

// TestStartsOfKilledProcesses: each run is cancelled once and started, though the processes that do it are killed again
// and again, at any place.
func TestStartsOfKilledProcesses(t *testing.T) {
	t.Parallel()
	const rounds, most, runs = 20, 12, 60
	file := newFile(t)
	s, db := openAt(t, file), openPlain(t, file, "busy_timeout(10000)")
	name := func(i int) string { return fmt.Sprint(i, " ", []string{"even", "odd"}[i%2]) }
	for i := range runs {
		attach(t, s, name(i), "", 0)
	}
	mustExec(t, db, `UPDATE watchdog_sessions
		SET created_at = '2026-01-01 00:00:00.000000', last_event_at = '2026-01-01 00:00:00.000000'`)
	keys := map[string][]string{}
	note := func(runID, key string) {
		if !slices.Contains(keys[runID], key) {
			keys[runID] = append(keys[runID], key)
		}
	}
	pass := func() { // the times of claims and the pauses between tries, which double
		mustExec(t, db, "UPDATE watchdog_sessions SET start_due = 0 WHERE start_due IS NOT NULL")
	}
	for range rounds {
		pass()
		said := killAfter(t, 1+rand.IntN(most), "resume until killed", file)
		for _, start := range said["starts"] {
			runID, key, _ := strings.Cut(start, "=")
			note(runID, key)
		}
	}
	left := func() int { return len(queryAll(t, db, "SELECT run_id FROM watchdog_sessions WHERE attempt = 1")) }
	t.Logf("%d of %d were started by processes that were killed, and %d attached", len(keys), runs, runs-left())
	sweeper, err := resuming(s, func(run session.Session) bool {
		note(run.RunID, run.Start.Key)
		return true
	})
	require.NoError(t, err)
	pass()
	require.Eventually(t, func() bool {
		_, err := sweeper.Sweep(t.Context())
		require.NoError(t, err)
		return left() == 0
	}, 5*time.Minute, 10*time.Millisecond)
	for i := range runs {
		row := rowOf(t, s, name(i))
		assert.Equal(t, 2, row.Attempt, row.RunID)
		assert.Equal(t, 1, row.Resumes, row.RunID)
		assert.Len(t, keys[row.RunID], 1, row.RunID)
		assert.Equal(t, keys[row.RunID], queryAll(t, db, "SELECT id FROM events WHERE aggregate_id = '"+row.RunID+
			"' AND event_type = '"+watchdog.EventCancel+"'"), row.RunID)
	}
}
