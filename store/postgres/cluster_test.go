package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/sweep"
)

// The settings of a cluster's hosts. A row is written at least ten times in a silence.
const (
	silence = 20 * time.Second
	pace    = 250 * time.Millisecond
	// connectLimit is how long a host tries one server. It is rounded up to a second by the connection string.
	connectLimit = time.Second
)

// A cluster is a primary with a standby, and hosts that all use one connection string.
type cluster struct {
	*testing.T
	primary  *pgtest.Server
	standby  *pgtest.Standby
	database string
	dsn      string // leads to whichever accepts writes
	pool     *pgxpool.Pool

	live  []*watchdog.Watchdog
	dying []*watchdog.Watchdog // their budgets end
	load  work                 // writers, and processes that die
	work  work                 // the activity of live runs, and sweepers

	mu           sync.Mutex
	acknowledged []string // the IDs of events
	refused      int
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, primary: pgtest.Start(t, pgtest.Options{Settings: []string{"max_connections=200"}})}
	c.standby = pgtest.StartStandby(t, c.primary, pgtest.StandbyOptions{
		Synchronous: true, Options: pgtest.Options{Settings: []string{"max_connections=200"}},
	})
	c.database = c.primary.Database(t)
	c.dsn = pgtest.DSN(c.database, connectLimit, c.primary, c.standby.Server)
	openAt(c, c.dsn, postgres.Config{}) // it makes the tables
	c.pool = hostPool(c, c.dsn)
	c.load.start(t)
	c.work.start(t)
	return c
}

// A work is what goes on beside a test until it is stopped, or the test ends.
type work struct {
	context.Context
	end context.CancelFunc
	all sync.WaitGroup
}

func (w *work) start(t *testing.T) {
	t.Helper()
	w.Context, w.end = context.WithCancel(t.Context())
	t.Cleanup(w.stop)
}

func (w *work) stop() {
	w.end()
	w.all.Wait()
}

// every does something again and again.
func (w *work) every(pause time.Duration, do func()) {
	w.all.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				do()
			case <-w.Done():
				return
			}
		}
	})
}

// host starts a process's keeper, runs that are busy, and runs whose budgets end after one second, two and so on.
func (c *cluster) host(name string, runs, dying int) {
	store := openAt(c, c.dsn, postgres.Config{})
	keeper, err := session.NewKeeper(keeperConfig(store, name))
	require.NoError(c, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(c.Context()))
	var keeping sync.WaitGroup
	c.Cleanup(func() {
		stop()
		keeping.Wait()
	})
	keeping.Go(func() { assert.NoError(c, keeper.Run(ctx)) })
	for i := range runs {
		wd := c.guard(store, keeper, fmt.Sprintf("%s-run-%d", name, i), watchdog.NoLimit)
		c.live = append(c.live, wd)
		c.work.every(pace/5, wd.Activity)
	}
	for i := range dying {
		budget := time.Duration(i+1) * time.Second
		c.dying = append(c.dying, c.guard(store, keeper, fmt.Sprintf("%s-dying-%d", name, i), budget))
	}
}

func keeperConfig(store session.Store, host string) session.KeeperConfig {
	return session.KeeperConfig{
		Store: store, Host: host, Promise: time.Second, Threshold: silence, Pace: pace,
		Logger: slog.New(slog.DiscardHandler),
	}
}

func (c *cluster) guard(
	store watchdog.EventStore, keeper watchdog.Keeper, runID string, budget time.Duration,
) *watchdog.Watchdog {
	wd, err := watchdog.New(context.WithoutCancel(c.Context()), watchdog.Run{ID: runID, StartedAt: time.Now()},
		watchdog.Config{
			Store: store, Keeper: keeper, Budget: watchdog.Budget{WallClock: budget}, Logger: slog.New(slog.DiscardHandler),
		})
	require.NoError(c, err)
	c.Cleanup(func() { _ = wd.Close() })
	return wd
}

// write appends events one after the other, and notes which were acknowledged.
func (c *cluster) write(writer string) {
	store := openAt(c, c.dsn, postgres.Config{})
	n := 0
	c.load.every(10*time.Millisecond, func() {
		n++
		e := numbered(int64(n))
		e.ID, e.AggregateID = fmt.Sprintf("%s-%d", writer, n), writer
		c.append(store, e)
	})
}

func (c *cluster) append(store watchdog.EventStore, e watchdog.Event) {
	ctx, cancel := context.WithTimeout(c.Context(), watchdog.DefaultRecordTimeout)
	defer cancel()
	err := store.Append(ctx, e)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.refused++
		return
	}
	c.acknowledged = append(c.acknowledged, e.ID)
}

// crash makes runs whose process dies at once: nobody keeps their rows, which have been silent for an hour.
func (c *cluster) crash(name string) {
	store := openAt(c, c.dsn, postgres.Config{})
	n := 0
	c.load.every(40*time.Millisecond, func() {
		n++
		ctx, cancel := context.WithTimeout(c.Context(), watchdog.DefaultRecordTimeout)
		defer cancel()
		dead := session.Session{RunID: fmt.Sprintf("%s-%d", name, n), StartedAt: noon, Host: "dead"}
		if _, _, err := store.Attach(ctx, dead); err == nil {
			_ = c.age(ctx) // the next call ages what this one does not
		}
	})
}

func (c *cluster) age(ctx context.Context) error {
	_, err := c.pool.Exec(ctx, `UPDATE watchdog_sessions
		SET last_event_at = now() - interval '1 hour'
		WHERE host = 'dead' AND status = 'active' AND last_event_at > now() - interval '1 minute'`)
	return err
}

// sweep runs a sweeper.
func (c *cluster) sweep() *sweep.Sweeper {
	store := openAt(c, c.dsn, postgres.Config{})
	sweeper, err := sweep.New(store, store, sweep.Config{
		Interval: 50 * time.Millisecond, StalledThreshold: silence, MinAge: watchdog.None,
		StartupDelay: watchdog.None, MaxCancellationsPerRun: watchdog.NoLimit, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(c, err)
	c.work.all.Go(func() { assert.NoError(c, sweeper.Run(&c.work)) })
	return sweeper
}

// until waits for something that comes within seconds.
func (c *cluster) until(what string, condition func() bool) {
	c.Helper()
	for began := time.Now(); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > seconds {
			require.Fail(c, "did not come within seconds: "+what)
		}
	}
}

// acknowledgements returns how many events were acknowledged, and how many were not.
func (c *cluster) acknowledgements() (acknowledged, refused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.acknowledged), c.refused
}

// untilWritten waits until the writers have had some more events acknowledged.
func (c *cluster) untilWritten() {
	c.Helper()
	before, _ := c.acknowledgements()
	c.until("acknowledged events", func() bool { now, _ := c.acknowledgements(); return now > before+100 })
}

// selectFresh finds the row of a run that its living lease shows to have been active after a time.
const selectFresh = `
	SELECT true FROM watchdog_sessions AS s JOIN watchdog_leases AS l ON l.id = s.lease
	WHERE s.run_id = $1 AND s.status = 'active' AND l.renewed_at > $2
		AND l.renewed_at - make_interval(secs => (l.clock - s.activity) / 1e9) > $2`

// untilFresh waits until the row of each live run says that it had an event after a time.
func (c *cluster) untilFresh(dsn string, since time.Time) {
	c.Helper()
	pool := hostPool(c, dsn)
	for _, wd := range c.live {
		c.until("a fresh row of "+wd.ID(), func() bool {
			var fresh bool
			return pool.QueryRow(c.Context(), selectFresh, wd.ID(), since).Scan(&fresh) == nil && fresh
		})
	}
}

// promote promotes the standby, and returns how long it took until each live run had a fresh row.
func (c *cluster) promote() time.Duration {
	c.Helper()
	began := time.Now()
	require.NoError(c, c.standby.Promote(c.Context()))
	promoted := time.Since(began)
	c.untilFresh(c.standby.DSN(c.database), began)
	fresh := time.Since(began)
	c.Logf("the standby was promoted in %v; all rows were fresh %v later, %v after the promotion began",
		promoted, fresh-promoted, fresh)
	return fresh
}

// lost returns the acknowledged events that are not stored.
func (c *cluster) lost() []string {
	c.Helper()
	stored := map[string]bool{}
	for _, id := range texts(c, c.pool, "SELECT id FROM events") {
		stored[id] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.acknowledged), func(id string) bool { return stored[id] })
}

// disagreements lists the runs that have two ends, and those whose row and events do not say the same. The reason of an
// event is that of the row without a prefix.
const disagreements = `
	SELECT concat_ws(' ', coalesce(s.run_id, e.run_id), s.status, s.reason, e.cancels, e.reasons)
	FROM watchdog_sessions s FULL JOIN (
		SELECT aggregate_id AS run_id, count(*) AS cancels, string_agg(payload->>'reason', ' ') AS reasons
		FROM events WHERE event_type = '` + watchdog.EventCancel + `' GROUP BY 1
	) e ON e.run_id = s.run_id
	WHERE e.cancels > 1 OR (e.cancels > 0) IS DISTINCT FROM nullif(s.status = 'cancelled', false)
		OR s.reason IS DISTINCT FROM 'watchdog_' || e.reasons AND e.cancels > 0`

// verify ends the work when all is written down, and compares it with what happened.
func (c *cluster) verify() {
	c.Helper()
	c.load.stop()
	for _, wd := range c.dying {
		wait(c.T, wd.Context().Done())
		assert.NoError(c, wd.Close(), "its cancel is stored by now")
	}
	c.until("the ends of all that has ended", func() bool {
		var active int
		err := c.age(c.Context())
		if err == nil {
			err = c.pool.QueryRow(c.Context(), `SELECT count(*) FROM watchdog_sessions
				WHERE status = 'active' AND (host = 'dead' OR run_id LIKE '%-dying-%')`).Scan(&active)
		}
		return err == nil && active == 0
	})
	c.work.stop()
	for _, wd := range c.live {
		assert.NoError(c, context.Cause(wd.Context()), wd.ID())
	}
	assert.Empty(c, texts(c, c.pool, `SELECT concat_ws(' ', run_id, status, reason) FROM watchdog_sessions
		WHERE run_id LIKE '%-run-%' AND status <> 'active'`), "no live run is cancelled")
	for _, wd := range c.dying {
		var stop *watchdog.Stop
		if assert.ErrorAs(c, context.Cause(wd.Context()), &stop, wd.ID()) {
			assert.Equal(c, watchdog.WallClockExceeded, stop.Code)
		}
	}
	assert.Empty(c, texts(c, c.pool, disagreements), "a run has one end, and its row says so, too")
}

// TestSweepStandbyAway: while the synchronous standby is away, no cancel of a sweeper is answered, though the primary
// carries it out. Each is counted once all the same, and has its alert, its resume and its end event once.
func TestSweepStandbyAway(t *testing.T) {
	t.Parallel()
	const stalled = 3
	c := startCluster(t)
	store := openAt(t, c.dsn, postgres.Config{})
	for i := range stalled {
		_, _, err := store.Attach(t.Context(), session.Session{RunID: runNumber(i), StartedAt: noon, Host: "dead"})
		require.NoError(t, err)
	}
	require.NoError(t, c.age(t.Context()))

	alerts, keys := 0, map[string]string{} // of starts, which are repeated until the run attaches
	sweeper, err := sweep.New(store, store, sweep.Config{
		Interval: 100 * time.Millisecond, StalledThreshold: silence, MinAge: watchdog.None, RecordTimeout: time.Second,
		StopTimeout: time.Second,
		Alert:       sweep.Alert{Within: time.Nanosecond, Func: func(context.Context, int) { alerts++ }}, // of each cancel
		Resume: sweep.ResumePolicy{Max: 1, Tries: 2, Start: func(_ context.Context, s session.Session) error {
			if before, again := keys[s.RunID]; again {
				assert.Equal(t, before, s.Start.Key)
			}
			keys[s.RunID] = s.Start.Key
			return nil
		}},
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	require.NoError(t, c.standby.Disconnect(t.Context()))
	began := time.Now()
	_, _ = sweeper.Sweep(t.Context()) // what it says depends on when the primary gives up waiting
	require.GreaterOrEqual(t, time.Since(began), stalled*time.Second, "each cancel waited for the standby")
	require.NoError(t, c.standby.Reconnect(t.Context()))
	c.until("cancels", func() bool {
		time.Sleep(100 * time.Millisecond) // so that the pauses of those that failed are over
		_, err := sweeper.Sweep(t.Context())
		left := texts(t, c.pool, "SELECT run_id FROM watchdog_sessions WHERE start_due IS NOT NULL") // nobody attaches
		return err == nil && sweeper.Stats().Cancelled >= stalled && len(left) == 0
	})
	for range 3 {
		p, err := sweeper.Sweep(t.Context())
		require.NoError(t, err)
		assert.Empty(t, p.Cases)
	}
	assert.Equal(t, stalled, sweeper.Stats().Cancelled)
	assert.Equal(t, stalled, alerts)
	for i := range stalled {
		row := sessionOf(t, store, runNumber(i))
		assert.Equal(t, session.Cancelled, row.Status)
		assert.Equal(t, watchdog.SessionIdleTimeout, row.Reason)
		assert.Equal(t, 1, row.Resumes)
		assert.NotEmpty(t, keys[runNumber(i)])
		assert.Equal(t, []string{"1"}, texts(t, c.pool, fmt.Sprintf(`SELECT count(*)::text FROM events
			WHERE aggregate_id = '%s' AND event_type = '%s'`, runNumber(i), watchdog.EventCancel)))
	}
	assert.Empty(t, texts(t, c.pool, disagreements))
}

// outage is how long there is no primary. It is more than the time between two writes of a row.
const outage = silence/10 + time.Second

// A primary that crashes under load, and whose synchronous standby is promoted, costs nothing: no acknowledged event is
// lost, no live run is cancelled, no run has two ends, and its row and its events agree.
func TestFailover(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for _, host := range []string{"host-1", "host-2", "host-3"} {
		c.host(host, 12, 3)
		c.write("writer of " + host)
	}
	c.crash("dead-1")
	first, second := c.sweep(), c.sweep()
	c.untilWritten()
	c.until("cancels", func() bool { return first.Stats().Cancelled+second.Stats().Cancelled > 10 })

	c.primary.Kill()
	time.Sleep(outage)
	_, refused := c.acknowledgements()
	require.Positive(t, refused, "nothing was written meanwhile")
	fresh := c.promote()
	assert.Less(t, fresh, seconds)
	c.untilWritten()
	c.crash("dead-2")
	cancelled := first.Stats().Cancelled + second.Stats().Cancelled
	c.until("cancels", func() bool { return first.Stats().Cancelled+second.Stats().Cancelled > cancelled+10 })
	c.verify()
	assert.Empty(t, c.lost(), "acknowledged events")
}

// While the synchronous standby is away no event is acknowledged, not even one that is appended again: the primary has
// stored it, and the standby, which may be promoted, has not.
func TestStandbyAway(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	require.NoError(t, c.standby.Disconnect(t.Context()))
	s := openAt(t, c.dsn, postgres.Config{})
	stored := 0
	for name, write := range map[string]func(ctx context.Context) error{
		"appended":   func(ctx context.Context) error { return s.Append(ctx, numbered(1)) },
		"transacted": func(ctx context.Context) error { return s.Transact(ctx, appending("run-1", numbered(2))) },
	} {
		stored++
		t.Run("an event is not acknowledged that is "+name, func(t *testing.T) {
			for tries := 0; tries < 3 || len(read(t, s)) < stored; tries++ { // a busy machine may not come to the commit
				require.Less(t, tries, 100)
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				assert.ErrorIs(t, write(ctx), context.DeadlineExceeded)
				cancel()
			}
		})
	}
	assert.Len(t, read(t, s), 2, "the primary has stored them")
	require.NoError(t, c.standby.Reconnect(t.Context()))
	require.NoError(t, s.Append(t.Context(), numbered(1)))
}
