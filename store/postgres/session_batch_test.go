package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/sweep"
)

// cancelsOf attaches to runs and returns their cancels.
func cancelsOf(t *testing.T, s *postgres.Store, n int) (all []session.BatchedCancel) {
	t.Helper()
	for i := range n {
		id := fmt.Sprintf("end of %s", runNumber(i))
		all = append(all, session.BatchedCancel{Judged: attach(t, s, runNumber(i)), Request: cancelOf(id, runNumber(i))})
	}
	return all
}

func outcomesBut(n, place int) []session.Outcome {
	outcomes := make([]session.Outcome, n)
	for i := range outcomes {
		if i != place {
			outcomes[i] = session.Done
		}
	}
	return outcomes
}

// TestCancelAll checks that sessions are cancelled in one transaction, whatever one of them meets.
func TestCancelAll(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]string{
		"": "", " in a mode of its own": "&default_query_exec_mode=simple_protocol",
		" without a cache": "&statement_cache_capacity=0",
	} {
		t.Run("all of them"+name, func(t *testing.T) {
			dsn := newDSN(t)
			s, pool := openAt(t, dsn+options, postgres.Config{Outbox: true}), hostPool(t, dsn)
			for range 3 { // the first call of a connection prepares the statements
				outcomes, err := s.CancelAll(t.Context(), cancelsOf(t, s, 10))
				require.NoError(t, err)
				assert.Equal(t, outcomesBut(10, -1), outcomes)
				assert.Equal(t, []string{"1 10"}, texts(t, pool,
					`SELECT count(DISTINCT xmin::text) || ' ' || count(*) FROM watchdog_sessions WHERE status = 'cancelled'`))
				assert.Len(t, texts(t, pool, "SELECT event_id FROM watchdog_outbox"), 10)
				mustExec(t, pool, "TRUNCATE watchdog_sessions, watchdog_outbox, events")
			}
			outcomes, err := s.CancelAll(t.Context(), nil)
			require.NoError(t, err)
			assert.Empty(t, outcomes)
		})
	}
	t.Run("a locked row is skipped", func(t *testing.T) {
		dsn := newDSN(t)
		s, stranger := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
		all := cancelsOf(t, s, 10)
		unlock := lock(t, stranger, runNumber(4))
		began := time.Now()
		outcomes, err := s.CancelAll(t.Context(), all)
		require.NoError(t, err)
		assert.Less(t, time.Since(began), 8*promptly)
		assert.Equal(t, outcomesBut(10, 4), outcomes)
		assert.Len(t, texts(t, stranger, "SELECT id FROM events"), 9)
		unlock()
		outcomes, err = s.CancelAll(t.Context(), all[4:5])
		require.NoError(t, err)
		assert.Equal(t, []session.Outcome{session.Done}, outcomes)
	})
	t.Run("a row that the database refuses has all rolled back", func(t *testing.T) {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
		all := cancelsOf(t, s, 10)
		mustExec(t, pool, `ALTER TABLE watchdog_sessions ADD CONSTRAINT four CHECK (run_id <> 'run-0004') NOT VALID`)
		for range 2 {
			outcomes, err := s.CancelAll(t.Context(), all)
			require.ErrorContains(t, err, "cancel 10 sessions in")
			require.ErrorContains(t, err, "four")
			assert.Empty(t, outcomes)
			assert.Empty(t, texts(t, pool, "SELECT id FROM events"))
			assert.Equal(t, []string{"active"}, texts(t, pool, "SELECT DISTINCT status FROM watchdog_sessions"))
		}
	})
	t.Run("an end that commits meanwhile is left for a cancel alone", func(t *testing.T) {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
		all := cancelsOf(t, s, 3)
		tx := completing(t, dsn, "end of run-0001", "run-0001")
		outcomes := cancelAllMeanwhile(t, s, all)
		waitForLock(t, pool)
		require.NoError(t, tx.Commit(t.Context()))
		assert.Equal(t, outcomesBut(3, 1), <-outcomes)
		assert.Equal(t, session.Active, sessionOf(t, s, "run-0001").Status)
		outcome, err := s.Cancel(t.Context(), all[1].Judged, all[1].Request)
		require.NoError(t, err)
		assert.Equal(t, session.EndStored, outcome)
		assert.Equal(t, session.Finished, sessionOf(t, s, "run-0001").Status)
	})
	t.Run("an end that takes too long is an error, and nothing is written", func(t *testing.T) {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
		all := cancelsOf(t, s, 3)
		completing(t, dsn, "end of run-0001", "run-0001")
		_, err := s.CancelAll(t.Context(), all)
		require.ErrorContains(t, err, "lock_timeout")
		assert.Empty(t, texts(t, pool, "SELECT id FROM events"))
	})
	t.Run("ends that others store in the order of their IDs are no deadlock", func(t *testing.T) {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
		all := cancelsOf(t, s, 3)
		all[0], all[2] = all[2], all[0]
		tx := completing(t, dsn, "end of run-0000", "run-0000")
		outcomes := cancelAllMeanwhile(t, s, all)
		waitForLock(t, pool)
		_, err := tx.Exec(t.Context(), `INSERT INTO events SELECT 'end of run-0002', aggregate_type, 'run-0002', event_type,
			payload, "timestamp" FROM events`)
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context()))
		assert.Equal(t, []session.Outcome{"", session.Done, ""}, <-outcomes)
	})
}

func cancelAllMeanwhile(t *testing.T, s *postgres.Store, all []session.BatchedCancel) <-chan []session.Outcome {
	t.Helper()
	decided := make(chan []session.Outcome, 1)
	go func() {
		outcomes, err := s.CancelAll(t.Context(), all)
		assert.NoError(t, err)
		decided <- outcomes
	}()
	return decided
}

// A losing store loses the answers about cancels that were committed.
type losing struct {
	*postgres.Store
	lost atomic.Int64
}

func (l *losing) CancelAll(ctx context.Context, all []session.BatchedCancel) ([]session.Outcome, error) {
	_, err := l.Store.CancelAll(ctx, all)
	l.lost.Add(1)
	return nil, errors.Join(errors.New("connection lost"), err)
}

// TestSweepTogether checks the passes of sweepers that cancel in batches.
func TestSweepTogether(t *testing.T) {
	t.Parallel()
	newSweeper := func(t *testing.T, store session.Store) *sweep.Sweeper {
		t.Helper()
		sweeper, err := sweep.New(store, store, sweep.Config{
			MinAge: watchdog.None, MaxCancellationsPerRun: 20, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		return sweeper
	}
	stalled := func(t *testing.T, dsn string, n int) *postgres.Store {
		t.Helper()
		s := openAt(t, dsn, postgres.Config{})
		for i := range n {
			attach(t, s, runNumber(i))
		}
		mustExec(t, hostPool(t, dsn), "UPDATE watchdog_sessions SET last_event_at = now() - interval '1 hour'")
		return s
	}
	t.Run("one that the database refuses does not hold up the others", func(t *testing.T) {
		dsn := newDSN(t)
		s := stalled(t, dsn, 20)
		mustExec(t, hostPool(t, dsn),
			`ALTER TABLE watchdog_sessions ADD CONSTRAINT four CHECK (run_id <> 'run-0004') NOT VALID`)
		p, err := newSweeper(t, s).Sweep(t.Context())
		require.ErrorContains(t, err, "four")
		assert.Equal(t, 19, p.Cancelled)
		assert.Equal(t, 1, p.Failed)
	})
	t.Run("if the answer about all is lost, each is looked up", func(t *testing.T) {
		dsn := newDSN(t)
		s := &losing{Store: stalled(t, dsn, 20)}
		p, err := newSweeper(t, s).Sweep(t.Context())
		require.NoError(t, err)
		assert.Equal(t, sweep.Tally{Checked: 20, Found: 20, Cancelled: 20}, p.Tally)
		assert.EqualValues(t, 3, s.lost.Load(), "all, and each half")
		assert.Len(t, texts(t, hostPool(t, dsn), "SELECT id FROM events"), 40)
	})
	t.Run("two that have the same page cancel each once", func(t *testing.T) {
		dsn := newDSN(t)
		s := stalled(t, dsn, 100)
		passes := make(chan sweep.Pass, 40)
		for _, store := range []*postgres.Store{s, openAt(t, dsn, postgres.Config{})} {
			sweeper := newSweeper(t, store)
			go func() {
				for range cap(passes) / 2 {
					p, err := sweeper.Sweep(t.Context())
					assert.NoError(t, err)
					passes <- p
				}
			}()
		}
		var cancelled int
		for range cap(passes) {
			cancelled += (<-passes).Cancelled
		}
		assert.Equal(t, 100, cancelled)
		assert.Len(t, texts(t, hostPool(t, dsn), "SELECT id FROM events"), 200)
	})
}
