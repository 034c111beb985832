//go:build unix

package bench_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
	"github.com/seed62658d38/watchdog/sweep"
)

const (
	liveRuns = 10_000
	// oneCycle is the time in which every row is written once, with the default threshold.
	oneCycle = session.DefaultThreshold / 10
)

// BenchmarkKept measures 10,000 live runs with one activity a second, and without anything new, with rows and without,
// for a minute in which each row of an active run is written once. It takes nine minutes. SQLite works in this process;
// the PostgreSQL server has processes of its own, which %core does not include.
func BenchmarkKept(b *testing.B) {
	b.Run("active", func(b *testing.B) { keepIn(b, beActive) })
	b.Run("nothing-new", func(b *testing.B) { keepIn(b, beIdle) })
}

// keepIn measures the runs in each store while they do something.
func keepIn(b *testing.B, do work) {
	b.Helper()
	var without float64
	b.Run("in=nothing", func(b *testing.B) { without = live(b, do, nil, nil) })
	b.Run("in=SQLite", func(b *testing.B) {
		store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "sessions.db"))
		check(b, err)
		b.Cleanup(func() { check(b, store.Close()) })
		var statements atomic.Int64
		b.ReportMetric(live(b, do, counted{store, &statements}, &statements)-without, "%core-more")
	})
	b.Run("in=PostgreSQL", func(b *testing.B) {
		server := pgtest.Start(b, pgtest.Options{Fsync: true})
		config, err := pgxpool.ParseConfig(server.DSN(server.Database(b)))
		check(b, err)
		var statements atomic.Int64
		config.ConnConfig.Tracer = tracer{&statements}
		pool, err := pgxpool.NewWithConfig(b.Context(), config)
		check(b, err)
		b.Cleanup(pool.Close)
		store, err := postgres.New(b.Context(), pool, postgres.Config{})
		check(b, err)
		b.Cleanup(func() { check(b, store.Close()) })
		b.ReportMetric(live(b, do, store, &statements)-without, "%core-more")
	})
}

// live keeps the runs live for a minute and returns the share of a core that they took.
func live(b *testing.B, do work, store session.Store, statements *atomic.Int64) (share float64) {
	b.Helper()
	cfg := watchdog.Config{Store: &watchdog.Memory{}, Budget: watchdog.Budget{Idle: time.Hour}, Logger: quiet}
	within := time.Duration(0)
	if store != nil {
		cfg.Keeper, within = keep(b, store), oneCycle
	}
	all := attachAll(b, cfg, within)
	for b.Loop() {
		began, used := time.Now(), processorTime(b)
		before := int64(0)
		if statements != nil {
			before = statements.Load()
		}
		do(all, began)
		wall := time.Since(began)
		share = 100 * (processorTime(b) - used).Seconds() / wall.Seconds()
		b.ReportMetric(share, "%core")
		if statements != nil {
			b.ReportMetric(float64(statements.Load()-before)/wall.Seconds(), "statements/s")
		}
	}
	return share
}

// work is what runs do for a cycle.
type work func(all []*watchdog.Watchdog, began time.Time)

// beIdle has nothing new.
func beIdle(_ []*watchdog.Watchdog, began time.Time) { time.Sleep(time.Until(began.Add(oneCycle))) }

// beActive gives each run one activity a second, in ten portions, for a cycle.
func beActive(all []*watchdog.Watchdog, began time.Time) {
	portions := time.NewTicker(100 * time.Millisecond)
	defer portions.Stop()
	for n := 0; time.Since(began) < oneCycle; n++ {
		for i := n % 10; i < len(all); i += 10 {
			all[i].Activity()
		}
		<-portions.C
	}
}

// keep runs a keeper until the benchmark ends.
func keep(b *testing.B, store session.Store) *session.Keeper {
	b.Helper()
	keeper, err := session.NewKeeper(session.KeeperConfig{Store: store, Logger: quiet})
	check(b, err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = keeper.Run(ctx) })
	b.Cleanup(func() {
		stop()
		running.Wait()
	})
	return keeper
}

// attachAll attaches the runs spread over a time, so that their rows are not all due at one instant.
func attachAll(b *testing.B, cfg watchdog.Config, within time.Duration) []*watchdog.Watchdog {
	b.Helper()
	all, err := attachRuns(cfg, "run-", liveRuns, within)
	b.Cleanup(func() { closeAll(all) })
	check(b, err)
	return all
}

// attachRuns attaches runs whose names have a prefix. It returns those that were attached also with an error.
func attachRuns(
	cfg watchdog.Config, prefix string, runs int, within time.Duration,
) (all []*watchdog.Watchdog, err error) {
	began := time.Now()
	for i := range runs {
		time.Sleep(time.Until(began.Add(within * time.Duration(i) / time.Duration(runs))))
		run := watchdog.Run{ID: fmt.Sprintf("%s%07d", prefix, i), StartedAt: time.Now()}
		wd, err := watchdog.New(context.Background(), run, cfg)
		if err != nil {
			return all, err
		}
		all = append(all, wd)
	}
	return all, nil
}

func closeAll(all []*watchdog.Watchdog) {
	var closing sync.WaitGroup
	for part := range slices.Chunk(all, liveRuns/10) {
		closing.Go(func() {
			for _, wd := range part {
				wd.Close()
			}
		})
	}
	closing.Wait()
}

// processorTime returns the processor time of this process.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// counted counts the statements of a keeper in SQLite. A transaction counts as four: its begin, the time, the write and
// its commit. A renewal is one statement, which nothing else waits beside here.
type counted struct {
	session.Store
	statements *atomic.Int64
}

func (s counted) Freshen(
	ctx context.Context, lease string, fresh []session.Freshness,
) (session.Skipped, error) {
	s.statements.Add(4)
	return s.Store.Freshen(ctx, lease, fresh)
}

func (s counted) RenewLease(ctx context.Context, l session.Lease) error {
	s.statements.Add(1)
	return s.Store.RenewLease(ctx, l)
}

func (s counted) LeaseSessions(ctx context.Context, id string) ([]session.AttemptID, error) {
	s.statements.Add(1)
	return s.Store.LeaseSessions(ctx, id)
}

func (s counted) Ended(
	ctx context.Context, lease string, told []session.AttemptID,
) ([]session.AttemptID, error) {
	s.statements.Add(1)
	return s.Store.Ended(ctx, lease, told)
}

// A tracer counts the statements of a pool.
type tracer struct{ statements *atomic.Int64 }

// TraceQueryStart implements [pgx.QueryTracer].
func (t tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	t.statements.Add(1)
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements [pgx.BatchTracer].
func (tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (t tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {
	t.statements.Add(1)
}

// TraceBatchEnd implements [pgx.BatchTracer].
func (tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// BenchmarkCancelElsewhere cancels sessions on one host and waits until each one's run on another host has ended: fifty
// sessions, one after the other.
func BenchmarkCancelElsewhere(b *testing.B) {
	const atATime = 50
	server := pgtest.Start(b, pgtest.Options{Fsync: true})
	dsn := server.DSN(server.Database(b))
	var hosts [2]*postgres.Store
	for i := range hosts {
		store, err := postgres.Open(b.Context(), dsn, postgres.Config{})
		check(b, err)
		b.Cleanup(func() { check(b, store.Close()) })
		hosts[i] = store
	}
	cfg := watchdog.Config{Store: hosts[0], Keeper: keep(b, hosts[0]), Logger: quiet}
	var took []time.Duration
	for b.Loop() {
		for range atATime {
			took = append(took, cancelElsewhere(b, cfg, hosts[1], len(took)))
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-max")
}

func cancelElsewhere(b *testing.B, cfg watchdog.Config, elsewhere session.Store, number int) time.Duration {
	b.Helper()
	ctx := context.Background()
	wd, err := watchdog.New(ctx, watchdog.Run{ID: fmt.Sprintf("run-%07d", number), StartedAt: time.Now()}, cfg)
	check(b, err)
	defer wd.Close()
	for {
		row, err := elsewhere.Session(ctx, wd.ID())
		check(b, err)
		decided := time.Now()
		run := sweep.StalledRun{
			RunID: row.RunID, StartedAt: row.StartedAt, LastEventAt: row.LastEventAt, DecidedAt: decided,
			Silence: time.Hour, Threshold: time.Minute,
		}
		outcome, err := elsewhere.Cancel(ctx, row, session.CancelRequest{
			Reason: watchdog.SessionIdleTimeout, Events: run.CancelEvents(),
		})
		check(b, err)
		if outcome == session.Done {
			<-wd.Context().Done()
			return time.Since(decided)
		}
	}
}
