package migrating_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/migrating"
	"github.com/seed62658d38/watchdog/store/sqlite"
	"github.com/seed62658d38/watchdog/sweep"
)

// A session may be silent for two minutes, and is looked for every ten seconds once a sweeper has begun.
const (
	sessionLimit = 2 * time.Minute
	sweepEvery   = 10 * time.Second
)

// A sweptHost is a host of sessions in a real SQLite file, in the bubble of a test. Its clock is the bubble's, and the
// file is read and written in no time at all.
type sweptHost struct {
	*testing.T
	side     sweptSide
	db       migrating.Database
	sessions chan migrating.Session
	ended    chan error
}

type sweptSide struct {
	run func(
		ctx context.Context, db migrating.Database, limit, every time.Duration, sessions <-chan migrating.Session,
	) error
	// status is a query for the status of a session.
	status string
	// orphan inserts a session that a process left active which died an hour ago.
	orphan string
	told   func(h *sweptHost, id string, err error)
}

var sweptSides = map[string]sweptSide{
	"before": {
		run:    migrating.StatusSweepBefore,
		status: `SELECT status FROM sessions WHERE id = ?`,
		orphan: `INSERT INTO sessions VALUES (?, 'active', 0)`,
		told:   toldByInterrupt,
	},
	"after": {
		run:    migrating.StatusSweepAfter,
		status: `SELECT status FROM watchdog_sessions WHERE run_id = ?`,
		orphan: `INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, host, attempt)
			SELECT ?, 'active', at, at, at, 'gone', 1
			FROM (SELECT strftime('%Y-%m-%d %H:%M:%f000', 'now', '-1 hour') AS at)`,
		told: toldBySweeper,
	},
}

// toldByInterrupt checks that the session was told that it was swept, and no more.
func toldByInterrupt(h *sweptHost, _ string, err error) {
	h.Helper()
	var interruption *watchdog.Interruption
	require.ErrorAs(h, err, &interruption)
	require.Equal(h, "swept", interruption.By)
}

// toldBySweeper checks that the session was told why, and that the event says the same.
func toldBySweeper(h *sweptHost, id string, err error) {
	h.Helper()
	var stop *watchdog.Stop
	require.ErrorAs(h, err, &stop)
	require.Equal(h, watchdog.SessionIdleTimeout, stop.Code)
	require.Equal(h, id, stop.RunID)
	require.Equal(h, sessionLimit, stop.Budget)
	require.Greater(h, stop.Elapsed, sessionLimit)
	events, err := h.db.Store.Read(h.Context(), watchdog.AggregateType, id)
	require.NoError(h, err)
	require.Equal(h, stop.EventID(), events[len(events)-1].ID)
}

// serve starts a host in the bubble of the test. The first sweep is over when it returns.
func serve(t *testing.T, s sweptSide, limit time.Duration) *sweptHost {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sessions.db")
	store, err := sqlite.Open(t.Context(), file)
	require.NoError(t, err)
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)")
	require.NoError(t, err)
	h := &sweptHost{t, s, migrating.Database{SQL: db, Store: store}, make(chan migrating.Session), make(chan error, 1)}
	ended := make(chan error, 1)
	go func() { ended <- s.run(t.Context(), h.db, limit, sweepEvery, h.sessions) }()
	t.Cleanup(func() {
		close(h.sessions)
		require.NoError(t, <-ended)
		require.NoError(t, db.Close())
		require.NoError(t, store.Close())
	})
	time.Sleep(sweep.DefaultStartupDelay + 2*sweepEvery)
	return h
}

// begin begins a session.
func (h *sweptHost) begin(id string, work func(context.Context, *watchdog.Watchdog) error) {
	h.sessions <- migrating.Session{ID: id, Work: work, Ended: func(err error) { h.ended <- err }}
}

// requireStatus checks the status that a row has once the host has written it.
func (h *sweptHost) requireStatus(id, status string) {
	h.Helper()
	time.Sleep(2 * sweepEvery)
	var got string
	require.NoError(h, h.db.SQL.QueryRowContext(h.Context(), h.side.status, id).Scan(&got))
	require.Equal(h, status, got)
}

// silent works without a sign of life.
func silent(ctx context.Context, _ *watchdog.Watchdog) error { return sleep(ctx, 1000*time.Hour) }

var sweptTests = []struct {
	sentence string
	check    func(*testing.T, sweptSide)
}{
	{"a session that is silent for longer than the limit is cancelled within a sweep, and told why", silentSession},
	{"activity begins the silence anew", activeSession},
	{"a tool in flight and a person who is asked are no silence while a hold is open", heldSession},
	{"a session whose process is gone is cancelled, too", orphanedSession},
	{"a host that is told to end before it starts a session begins none", stoppedSession},
	{"a limit of 0 is off", unlimitedSession},
	{"a session that completes is finished, and is not cancelled later", finishedSession},
}

// What the usual tests call messages waiting is a session whose host has not written yet: see the second row. A machine
// that sleeps cannot be had here; the tests of package sweep have hosts that are cut off.
func TestStatusSweep(t *testing.T) {
	for name, s := range sweptSides {
		t.Run(name, func(t *testing.T) {
			for _, test := range sweptTests {
				t.Run(test.sentence, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { test.check(t, s) })
				})
			}
		})
	}
}

func silentSession(t *testing.T, s sweptSide) {
	h := serve(t, s, sessionLimit)
	began := time.Now()
	h.begin("s-1", silent)
	err := <-h.ended
	require.Greater(t, time.Since(began), sessionLimit)
	require.LessOrEqual(t, time.Since(began), sessionLimit+3*sweepEvery)
	s.told(h, "s-1", err)
	h.requireStatus("s-1", "cancelled")
}

func activeSession(t *testing.T, s sweptSide) {
	finishes(t, s, sessionLimit, func(ctx context.Context, run *watchdog.Watchdog) error {
		for range 4 {
			if err := sleep(ctx, sessionLimit-2*sweepEvery); err != nil {
				return err
			}
			run.Activity()
		}
		return nil
	})
}

// finishes has a session work that is not to be swept, neither then nor later.
func finishes(t *testing.T, s sweptSide, limit time.Duration, work func(context.Context, *watchdog.Watchdog) error) {
	h := serve(t, s, limit)
	h.begin("s-1", work)
	require.NoError(t, <-h.ended)
	time.Sleep(3 * sessionLimit)
	h.requireStatus("s-1", "finished")
}

func heldSession(t *testing.T, s sweptSide) {
	h := serve(t, s, sessionLimit)
	h.begin("s-1", func(ctx context.Context, run *watchdog.Watchdog) error {
		err := run.During(ctx, "approval", watchdog.HoldLimit{Cap: watchdog.NoLimit}, func(ctx context.Context) error {
			return sleep(ctx, 4*sessionLimit)
		})
		return errors.Join(err, silent(ctx, run))
	})
	began := time.Now()
	s.told(h, "s-1", <-h.ended)
	require.Greater(t, time.Since(began), 5*sessionLimit)
}

func orphanedSession(t *testing.T, s sweptSide) {
	h := serve(t, s, sessionLimit)
	_, err := h.db.SQL.ExecContext(t.Context(), s.orphan, "s-gone")
	require.NoError(t, err)
	h.requireStatus("s-gone", "cancelled")
}

func stoppedSession(t *testing.T, s sweptSide) {
	h := serve(t, s, sessionLimit)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sessions := make(chan migrating.Session, 1)
	ended := make(chan error, 1)
	sessions <- migrating.Session{ID: "s-1", Ended: func(err error) { ended <- err }, Work: func(
		context.Context, *watchdog.Watchdog,
	) error {
		t.Error("the session was begun")
		return nil
	}}
	close(sessions)
	err := s.run(ctx, h.db, sessionLimit, sweepEvery, sessions)
	if err == nil {
		err = <-ended
	}
	require.ErrorIs(t, err, context.Canceled)
}

func unlimitedSession(t *testing.T, s sweptSide) {
	finishes(t, s, 0, func(ctx context.Context, _ *watchdog.Watchdog) error { return sleep(ctx, 5*sessionLimit) })
}

func finishedSession(t *testing.T, s sweptSide) {
	finishes(t, s, sessionLimit, func(context.Context, *watchdog.Watchdog) error { return nil })
}
