package postgres_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// When several hosts attach to one new run at once, each sees the attempt before its own. They wait for a row that
// none of them could see when its statement began.
func TestAttachAtOnce(t *testing.T) {
	t.Parallel()
	s := openAt(t, newDSN(t)+"&pool_max_conns=8", postgres.Config{})
	for run := range 30 {
		var all sync.WaitGroup
		var mu sync.Mutex
		var befores []int
		for range 8 {
			all.Go(func() {
				before, after, err := s.Attach(t.Context(), session.Session{RunID: fmt.Sprint(run), StartedAt: noon})
				assert.NoError(t, err)
				assert.Equal(t, before.Attempt+1, after.Attempt)
				mu.Lock()
				defer mu.Unlock()
				befores = append(befores, before.Attempt)
			})
		}
		all.Wait()
		slices.Sort(befores)
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, befores)
	}
}

// Writers of the same events and rows in opposite orders do not deadlock.
func TestDeadlocks(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s := openAt(t, dsn+"&pool_max_conns=8", postgres.Config{})
	begin(t, s, lease1)
	var forth, back []session.Freshness
	for n := range 200 {
		attach(t, s, fmt.Sprint("run-", n))
		forth = append(forth, session.Freshness{RunID: fmt.Sprint("run-", n), Attempt: 1})
	}
	back = slices.Clone(forth)
	slices.Reverse(back)
	var all sync.WaitGroup
	for caller := range 8 {
		all.Go(func() {
			fresh := forth
			if caller%2 == 0 {
				fresh = back
			}
			for round := range 20 {
				_, err := s.Freshen(t.Context(), lease1, fresh)
				assert.NoError(t, err)
				events := []int64{int64(round * 2), int64(round*2 + 1)}
				if caller%2 == 0 {
					slices.Reverse(events)
				}
				assert.NoError(t, s.Append(t.Context(), numbered(events[0]), numbered(events[1])))
			}
		})
	}
	all.Wait()
	assert.Len(t, read(t, s), 40)
}

// A cancel of a session that was freshened after it was judged does nothing.
func TestFreshenThenCancel(t *testing.T) {
	t.Parallel()
	s := openAt(t, newDSN(t), postgres.Config{})
	begin(t, s, lease1)
	judged := attach(t, s, "run-1")
	_, err := s.Freshen(t.Context(), lease1, []session.Freshness{{RunID: "run-1", Attempt: 1}})
	require.NoError(t, err)
	done, err := s.Cancel(t.Context(), judged, cancelOf("c", "run-1"))
	require.NoError(t, err)
	assert.Equal(t, session.Changed, done, "the session was judged by its old activity")
}

// A cancel of a session whose row became unreadable after it was judged does nothing.
func TestUnreadableThenCancel(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s := openAt(t, dsn, postgres.Config{})
	judged := attach(t, s, "run-1")
	mustExec(t, hostPool(t, dsn), "UPDATE watchdog_sessions SET threshold = -1")
	done, err := s.Cancel(t.Context(), judged, cancelOf("c", "run-1"))
	require.NoError(t, err)
	assert.Equal(t, session.Changed, done, "a row that cannot be understood is never cancelled")
	assert.Empty(t, read(t, s))
}

// One payload that the server cannot read, such as one with \u0000, does not keep the others from being counted.
func TestHistoryOfEscapes(t *testing.T) {
	t.Parallel()
	s := openAt(t, newDSN(t), postgres.Config{})
	for i, payload := range []string{
		`{"reason":"stall","note":"\u0000"}`, `{"reason":"stall"}`, `{"reason":"st\u0061ll"}`, `{"reason":"stall","a":"\ud800"}`,
		`{"reason":"a","reason":"stall"}`, `{"note":"\u0000"}`, `{"reason":5,"a":"\u0000"}`, `{"reason":{"reason":"stall"}}`,
		`{"Reason":"stall"}`, `{"reason":"\\u"}`,
	} {
		e := cancelOf(fmt.Sprint("cancel-", i), "run-1").Events[0]
		e.Payload = []byte(payload)
		require.NoError(t, s.Append(t.Context(), e))
	}
	got, err := s.History(t.Context(), session.HistoryQuery{From: noon, To: noon.Add(time.Microsecond), By: session.ByReason})
	require.NoError(t, err)
	want := []session.CancelCount{{Key: "", Count: 4}, {Key: `\u`, Count: 1}, {Key: "stall", Count: 5}}
	assert.Equal(t, want, got)
}

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
