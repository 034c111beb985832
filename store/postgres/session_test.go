package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// When several hosts attach to one new run at once, each sees the attempt before its own. They wait for a row that
// none of them could see when its statement began.
func TestAttachAtOnce(t *testing.T) {
	t.Parallel()
	s := openAt(t, newDSN(t)+"&pool_max_conns=8", postgres.Config{}).Patient()
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
	require.Equal(t, want, got)
}

// TestListOfEscapes checks that one row whose state the server fails to read does not hide the others.
func TestListOfEscapes(t *testing.T) {
	t.Parallel()
	s := openAt(t, newDSN(t), postgres.Config{})
	want := map[bool][]string{}
	for i, state := range []string{
		`{"outcome":"failed"}`, `{"phase":"\u0000","outcome":"failed"}`, `{"phase":"\ud800","outcome":"failed"}`,
		`{"phase":"\\u0000","outcome":"failed"}`, `{"phase":"\\\u0000","outcome":"failed"}`, `{"outcome":"succeeded"}`,
		`{"outcome":"failed\u0000"}`, `{"outcome\u0000":"failed"}`, `{"phase":"\u0000"}`,
	} {
		id := fmt.Sprint("run-", i)
		_, row, err := s.Attach(t.Context(), session.Session{RunID: id, StartedAt: noon, State: []byte(state)})
		require.NoError(t, err)
		ending := session.Ending{RunID: id, Attempt: row.Attempt, Status: session.Finished, Reason: "complete"}
		_, err = s.End(t.Context(), []session.Ending{ending})
		require.NoError(t, err)
		row.Status, row.Reason = ending.Status, ending.Reason
		want[row.Failed()] = append(want[row.Failed()], id)
	}
	require.Len(t, want[true], 5)
	for failed, reason := range map[bool]watchdog.StopReason{true: session.ReasonFailed, false: "complete"} {
		page, err := s.List(t.Context(), session.ListQuery{Reason: reason, Limit: 100})
		require.NoError(t, err)
		var got []string
		for _, listed := range page.Sessions {
			got = append(got, listed.RunID)
		}
		require.ElementsMatch(t, want[failed], got, "%s", reason)
	}
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
			s, pool := openAt(t, dsn+options, postgres.Config{}), hostPool(t, dsn)
			for range 3 { // the first call of a connection prepares the statements
				outcomes, err := s.CancelAll(t.Context(), cancelsOf(t, s, 10))
				require.NoError(t, err)
				require.Equal(t, outcomesBut(10, -1), outcomes)
				require.Equal(t, []string{"1 10"}, texts(t, pool,
					`SELECT count(DISTINCT xmin::text) || ' ' || count(*) FROM watchdog_sessions WHERE status = 'cancelled'`))
				mustExec(t, pool, "TRUNCATE watchdog_sessions, events")
			}
			outcomes, err := s.CancelAll(t.Context(), nil)
			require.NoError(t, err)
			require.Empty(t, outcomes)
		})
	}
	t.Run("a locked row is skipped", func(t *testing.T) {
		s, stranger := openPatient(t)
		all := cancelsOf(t, s, 10)
		unlock := lock(t, stranger, runNumber(4))
		outcomes, err := s.CancelAll(shortly(t), all)
		require.NoError(t, err)
		require.Equal(t, outcomesBut(10, 4), outcomes)
		require.Len(t, texts(t, stranger, "SELECT id FROM events"), 9)
		unlock()
		outcomes, err = s.CancelAll(t.Context(), all[4:5])
		require.NoError(t, err)
		require.Equal(t, []session.Outcome{session.Done}, outcomes)
	})
	t.Run("a row that the database refuses has all rolled back", func(t *testing.T) {
		s, pool := openNew(t)
		all := cancelsOf(t, s, 10)
		mustExec(t, pool, `ALTER TABLE watchdog_sessions ADD CONSTRAINT four CHECK (run_id <> 'run-0004') NOT VALID`)
		for range 2 {
			outcomes, err := s.CancelAll(t.Context(), all)
			require.ErrorContains(t, err, "cancel 10 sessions in")
			require.ErrorContains(t, err, "four")
			require.Empty(t, outcomes)
			require.Empty(t, texts(t, pool, "SELECT id FROM events"))
			require.Equal(t, []string{"active"}, texts(t, pool, "SELECT DISTINCT status FROM watchdog_sessions"))
		}
	})
	t.Run("an end that commits meanwhile is left for a cancel alone", func(t *testing.T) {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, postgres.Config{}).Patient(), hostPool(t, dsn)
		all := cancelsOf(t, s, 3)
		tx := completing(t, dsn, "end of run-0001", "run-0001")
		outcomes := cancelAllMeanwhile(t, s, all)
		waitForLock(t, pool)
		require.NoError(t, tx.Commit(t.Context()))
		require.Equal(t, outcomesBut(3, 1), <-outcomes)
		require.Equal(t, session.Active, sessionOf(t, s, "run-0001").Status)
		outcome, err := s.Cancel(t.Context(), all[1].Judged, all[1].Request)
		require.NoError(t, err)
		require.Equal(t, session.EndStored, outcome)
		require.Equal(t, session.Finished, sessionOf(t, s, "run-0001").Status)
	})
	t.Run("an end that takes too long is an error, and nothing is written", func(t *testing.T) {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
		all := cancelsOf(t, s, 3)
		completing(t, dsn, "end of run-0001", "run-0001")
		require.ErrorContains(t, second(s.CancelAll(t.Context(), all)), "lock_timeout")
		require.Empty(t, texts(t, pool, "SELECT id FROM events"))
	})
	t.Run("ends that others store in the order of their IDs are no deadlock", func(t *testing.T) {
		dsn := newDSN(t)
		s, pool := openAt(t, dsn, postgres.Config{}).Patient(), hostPool(t, dsn)
		all := cancelsOf(t, s, 3)
		all[0], all[2] = all[2], all[0]
		tx := completing(t, dsn, "end of run-0000", "run-0000")
		outcomes := cancelAllMeanwhile(t, s, all)
		waitForLock(t, pool)
		_, err := tx.Exec(t.Context(), `INSERT INTO events SELECT 'end of run-0002', aggregate_type, 'run-0002', event_type,
			payload, "timestamp" FROM events`)
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context()))
		require.Equal(t, []session.Outcome{"", session.Done, ""}, <-outcomes)
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

// completing inserts the end of a run in a transaction of its own process, which has not committed.
func completing(t *testing.T, dsn, id, runID string) pgx.Tx {
	t.Helper()
	return begun(t, hostPool(t, dsn), `INSERT INTO events SELECT $1, $2, $3, $4, '{}', now()`,
		id, event.AggregateType, runID, event.Complete)
}

func cancelWithResume(id, runID string) session.CancelRequest {
	c := cancelOf(id, runID)
	resume := c.Events[0]
	resume.ID, resume.Type = "resume of "+runID, event.Resume
	c.Events, c.Resumes, c.StopFailed, c.By = []event.Event{resume, c.Events[0]}, 1, true, "pass"
	return c
}

// TestCancelMeetsEnd checks that an end which commits while a cancel waits for it is written down, and nothing else.
func TestCancelMeetsEnd(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	patient := openAt(t, dsn, postgres.Config{}).Patient()
	begin(t, s, lease1)
	cancelling := func(judged session.Session, id string) (<-chan session.Outcome, <-chan error) {
		outcomes, errs := make(chan session.Outcome, 1), make(chan error, 1)
		go func() {
			outcome, err := patient.Cancel(t.Context(), judged, cancelWithResume(id, judged.RunID))
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

// showing puts a view in the place of the sessions, in which some columns are computed. Only so can a row be exactly at
// a limit: the database's clock goes on between two statements, and stands still in one.
func showing(t *testing.T, pool *pgxpool.Pool, computed map[string]string) {
	t.Helper()
	var columns []string
	for _, name := range texts(t, pool, `SELECT column_name FROM information_schema.columns
		WHERE table_name = 'watchdog_sessions' ORDER BY ordinal_position`) {
		column := "r." + name
		if expression, found := computed[name]; found {
			column = expression + " AS " + name
		}
		columns = append(columns, column)
	}
	mustExec(t, pool, "ALTER TABLE watchdog_sessions RENAME TO kept_sessions",
		"CREATE VIEW watchdog_sessions AS SELECT "+strings.Join(columns, ", ")+" FROM kept_sessions AS r")
}

// TestStalledAtLimit checks each comparison with the database's clock at the limit itself, and a microsecond from it:
// run-0 is at the limit, and run-1 has one microsecond more of it.
func TestStalledAtLimit(t *testing.T) {
	t.Parallel()
	const (
		longAgo = `statement_timestamp() - interval '1 day'`
		age     = `statement_timestamp() - interval '2 minutes' + r.resumes * interval '1 microsecond'`
	)
	for name, c := range map[string]struct {
		own      time.Duration
		leased   bool
		computed map[string]string
		want     string
	}{
		"is not stalled at the query's threshold": {
			computed: map[string]string{
				"created_at": longAgo,
				"silent":     `statement_timestamp() - interval '10 minutes' - r.resumes * interval '1 microsecond'`,
			}, want: "run-1",
		},
		"is not stalled at its own threshold": {
			own: time.Hour,
			computed: map[string]string{
				"created_at": longAgo, "due": `statement_timestamp() - r.resumes * interval '1 microsecond'`,
			}, want: "run-1",
		},
		"is old enough at the minimum age": {
			computed: map[string]string{"created_at": age, "silent": longAgo}, want: "run-0",
		},
		"is old enough at the minimum age, with a threshold of its own": {
			own: time.Hour, computed: map[string]string{"created_at": age, "due": longAgo}, want: "run-0",
		},
		"is old enough at the minimum age, in a lease": {
			leased: true, computed: map[string]string{"created_at": age}, want: "run-0",
		},
		"is old enough at the minimum age, in a lease with a threshold of its own": {
			own: time.Hour, leased: true, computed: map[string]string{"created_at": age}, want: "run-0",
		},
	} {
		t.Run("a session "+name, func(t *testing.T) {
			s, pool := openNew(t)
			l := begin(t, s, lease1)
			l.Beat, l.Vouched = l.Beat+1, 24*time.Hour
			require.NoError(t, s.RenewLease(t.Context(), l))
			for i := range 2 {
				run := session.Session{RunID: fmt.Sprint("run-", i), StartedAt: noon, Threshold: c.own}
				if c.leased {
					run.Lease = lease1
				}
				require.NoError(t, third(s.Attach(t.Context(), run)))
				mustExec(t, pool, fmt.Sprintf("UPDATE watchdog_sessions SET resumes = %d WHERE run_id = 'run-%[1]d'", i))
				if c.leased {
					f := session.Freshness{RunID: run.RunID, Attempt: 1, Activity: time.Hour, Quiet: true}
					_, err := s.Freshen(t.Context(), lease1, []session.Freshness{f})
					require.NoError(t, err)
				}
			}
			showing(t, pool, c.computed)
			page, err := s.Stalled(t.Context(), session.Query{Threshold: 10 * time.Minute, MinAge: 2 * time.Minute, Limit: 10})
			require.NoError(t, err)
			require.Len(t, page.Sessions, 1)
			require.Equal(t, c.want, page.Sessions[0].RunID)
		})
	}
}

// A claim is over at its end.
func TestClaimAtItsEnd(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]session.Outcome{
		"statement_timestamp()":                            session.Done,
		"statement_timestamp() + interval '1 microsecond'": session.Taken,
	} {
		s, pool := openNew(t)
		judged := attach(t, s, "run-1")
		showing(t, pool, map[string]string{"claim": "'pass'", "claimed_until": at})
		outcome, err := s.Warn(t.Context(), judged, []event.Event{numbered(1)})
		require.NoError(t, err)
		require.Equal(t, want, outcome, at)
	}
}

// TestReadableTimes checks that a row is readable as far as Go can read its times, and not a microsecond further. An
// end whose time Go cannot read is told without one.
func TestReadableTimes(t *testing.T) {
	t.Parallel()
	s, pool := openNew(t)
	mustExec(t, pool, `INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, attempt)
		VALUES ('run-1', 'active', now(), now(), now(), 0)`)
	for _, column := range []string{"created_at", "last_event_at", "started_at", "ended_at"} {
		isEnd := column == "ended_at"
		if isEnd {
			mustExec(t, pool, "UPDATE watchdog_sessions SET status = 'finished'")
		}
		for at, readable := range map[string]bool{
			"0001-01-01 00:00:00+00":        !isEnd, // the zero time is no end
			"0001-01-01 00:00:00.000001+00": true, "9999-12-31 23:59:59.999999+00": true,
			"0001-12-31 23:59:59.999999+00 BC": false, "10000-01-01 00:00:00+00": false,
			"infinity": false, "-infinity": false,
		} {
			mustExec(t, pool, fmt.Sprintf("UPDATE watchdog_sessions SET %s = '%s'", column, at))
			found, err := s.Session(t.Context(), "run-1")
			if !readable && !isEnd {
				require.ErrorIs(t, err, session.ErrUnreadable, "%s %s", column, at)
				continue
			}
			require.NoError(t, err, "%s %s", column, at)
			require.Equal(t, isEnd && readable, !found.EndedAt.IsZero(), "%s %s", column, at)
		}
		mustExec(t, pool, fmt.Sprintf("UPDATE watchdog_sessions SET %s = now()", column))
	}
}

// Rows that cannot be read, and seem to have been silent for long, keep no other from being found.
func TestUnreadableAndSilent(t *testing.T) {
	t.Parallel()
	s, pool := openNew(t)
	l := begin(t, s, lease1)
	l.Beat, l.Vouched = l.Beat+1, 24*time.Hour
	require.NoError(t, s.RenewLease(t.Context(), l))
	for i, own := range []time.Duration{0, time.Hour, 0, time.Hour, 0} {
		run := session.Session{RunID: fmt.Sprint("run-", i), StartedAt: noon, Threshold: own}
		if i == 2 || i == 3 {
			run.Lease = lease1
		}
		require.NoError(t, third(s.Attach(t.Context(), run)))
	}
	_, err := s.Freshen(t.Context(), lease1, []session.Freshness{
		{RunID: "run-2", Attempt: 1, Quiet: true}, {RunID: "run-3", Attempt: 1, Quiet: true},
	})
	require.NoError(t, err)
	mustExec(t, pool, `UPDATE watchdog_sessions SET created_at = now() - interval '2 days',
			last_event_at = now() - interval '1 day'`,
		`UPDATE watchdog_sessions SET started_at = 'infinity' WHERE run_id <> 'run-4'`)
	page, err := s.Stalled(t.Context(), session.Query{Threshold: 10 * time.Minute, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Unreadable, 4)
	require.Len(t, page.Sessions, 1)
	require.Equal(t, "run-4", page.Sessions[0].RunID)
}

// TestListOfOddTimes checks that a list has each row once, and ends, whatever the times of other writers.
func TestListOfOddTimes(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s := newPutter(t, dsn, dsn)
	var want []string
	for i, at := range []string{"infinity", "infinity", "200000-01-01", "2026-01-01", "4000-01-01 BC", "-infinity", "-infinity"} {
		mustExec(t, s.pool, fmt.Sprintf(`INSERT INTO watchdog_sessions (run_id, status, created_at, started_at, attempt)
			VALUES ('run-%d', 'active', '%s', now(), 1)`, i, at))
		want = append(want, fmt.Sprint("run-", i))
	}
	for _, limit := range []int{1, 2, 3} {
		got := listed(t, s, session.ListQuery{Limit: limit})
		slices.Sort(got)
		require.Equal(t, want, got)
	}
}

// listed returns the run IDs of all pages, at most a thousand of them.
func listed(t *testing.T, s session.Lister, q session.ListQuery) (runIDs []string) {
	t.Helper()
	for pages := 0; pages == 0 || q.After != "" && pages < 1000; pages++ {
		page, err := s.List(t.Context(), q)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Sessions)+len(page.Unreadable), q.Limit)
		require.False(t, page.Now.IsZero())
		for _, one := range page.Sessions {
			runIDs = append(runIDs, one.RunID)
		}
		for _, err := range page.Unreadable {
			require.ErrorIs(t, err, session.ErrUnreadable)
			var runID string
			_, scanErr := fmt.Sscanf(err.Error(), "unreadable session: run run-%s", &runID)
			require.NoError(t, scanErr)
			runIDs = append(runIDs, "run-"+runID[:len(runID)-1])
		}
		q.After = page.Next
	}
	return runIDs
}
