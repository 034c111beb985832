package bench_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

const fleetHosts = 5

// BenchmarkFleet measures five hosts, each with live runs and a pool of its own, on one PostgreSQL server, for a
// minute: what they and the server take, with one activity a second of each run, and with nothing new for more than a
// minute, when the rows already say so; and without leases, where each host writes the time of the last event into each
// of its rows once a minute, whether there is something new or not. Beside them are the server alone, and hosts that
// have one quiet run each and poll through a pooler for what others ended. The hosts share this process. Most take
// three minutes.
func BenchmarkFleet(b *testing.B) {
	b.Run("no-hosts", func(b *testing.B) { newFleet(b, 0, false).standStill(b) })
	for _, runs := range []int{2_000, liveRuns} {
		b.Run(fmt.Sprintf("nothing-new/runs=%d", runs), func(b *testing.B) {
			newFleet(b, runs, false).keep(b, 85*time.Second, beIdle)
		})
		b.Run(fmt.Sprintf("active/runs=%d", runs), func(b *testing.B) { newFleet(b, runs, false).keep(b, 0, beActive) })
	}
	b.Run("without-leases", func(b *testing.B) { newFleet(b, liveRuns, false).writeRows(b) })
	b.Run("through-a-pooler", func(b *testing.B) {
		f := newFleet(b, 1, true)
		f.endElsewhere(b)
		f.keep(b, 85*time.Second, beIdle)
	})
}

// A fleet is hosts with one server.
type fleet struct {
	server     *pgtest.Server
	runs       int // of each host
	db         *sql.DB
	statements atomic.Int64 // of the hosts
	pools      [fleetHosts]*pgxpool.Pool
	stores     [fleetHosts]session.Store
}

func newFleet(b *testing.B, runs int, pooled bool) *fleet {
	b.Helper()
	f := &fleet{server: pgtest.Start(b, pgtest.Options{Fsync: true}), runs: runs}
	database := f.server.Database(b)
	dsn := f.server.DSN(database)
	var err error
	f.db, err = sql.Open("pgx", dsn)
	check(b, err)
	b.Cleanup(func() { check(b, f.db.Close()) })
	if pooled {
		dsn = pgtest.StartPooler(b, f.server, pgtest.TransactionMode).DSN(database)
	}
	for i := range f.stores {
		config, err := pgxpool.ParseConfig(dsn)
		check(b, err)
		config.ConnConfig.Tracer = tracer{&f.statements}
		f.pools[i], err = pgxpool.NewWithConfig(b.Context(), config)
		check(b, err)
		b.Cleanup(f.pools[i].Close)
		store, err := postgres.New(b.Context(), f.pools[i], postgres.Config{})
		check(b, err)
		b.Cleanup(func() { check(b, store.Close()) })
		f.stores[i] = store
	}
	return f
}

// standStill measures the server alone.
func (f *fleet) standStill(b *testing.B) {
	b.Helper()
	for b.Loop() {
		f.measure(b, func() { beIdle(nil, time.Now()) })
	}
}

// endElsewhere has others end many runs after a transaction was forgotten, in another database.
func (f *fleet) endElsewhere(b *testing.B) {
	b.Helper()
	newPostgres(b, f.server).holdTransaction(b)
	_, err := f.db.ExecContext(b.Context(), endedRows)
	check(b, err)
	_, err = f.db.ExecContext(b.Context(), "VACUUM ANALYZE watchdog_sessions")
	check(b, err)
}

// keep measures runs that keepers keep while they do some work, a time after they were attached.
func (f *fleet) keep(b *testing.B, after time.Duration, do work) {
	b.Helper()
	f.setCommits(b, "off") // the attaches are not measured
	all := f.attach(b)
	f.setCommits(b, "on")
	for _, wd := range all {
		wd.Activity()
	}
	time.Sleep(after)
	for b.Loop() {
		f.measure(b, func() { do(all, time.Now()) })
	}
}

// writeRows measures hosts that write each of their rows once a minute, a sixtieth of them in each second.
func (f *fleet) writeRows(b *testing.B) {
	b.Helper()
	_, err := f.db.ExecContext(b.Context(), inPostgres.rows, fleetHosts*f.runs, 0)
	check(b, err)
	for b.Loop() {
		f.measure(b, func() {
			var errs [fleetHosts]error
			var writing sync.WaitGroup
			for i, pool := range f.pools {
				writing.Go(func() { errs[i] = writeEachRow(b.Context(), pool, i*liveRuns) })
			}
			writing.Wait()
			check(b, errors.Join(errs[:]...))
		})
	}
}

// writeEachRow takes a minute.
func writeEachRow(ctx context.Context, pool *pgxpool.Pool, first int) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for n := range 60 {
		var names []string
		for i := n; i < liveRuns; i += 60 {
			names = append(names, fmt.Sprintf("run-%07d", first+i+1))
		}
		_, err := pool.Exec(ctx, "UPDATE watchdog_sessions SET last_event_at = now() WHERE run_id = ANY ($1)", names)
		if err != nil {
			return err
		}
		<-second.C
	}
	return nil
}

func (f *fleet) setCommits(b *testing.B, setting string) {
	b.Helper()
	for _, statement := range []string{"ALTER SYSTEM SET synchronous_commit = " + setting, "SELECT pg_reload_conf()"} {
		_, err := f.db.ExecContext(b.Context(), statement)
		check(b, err)
	}
}

// attach attaches the runs of all hosts at once, over three quarters of a minute.
func (f *fleet) attach(b *testing.B) (all []*watchdog.Watchdog) {
	b.Helper()
	var attaching sync.WaitGroup
	var attached [fleetHosts][]*watchdog.Watchdog
	var errs [fleetHosts]error
	for i, store := range f.stores {
		cfg := watchdog.Config{
			Store: &watchdog.Memory{}, Keeper: keep(b, store), Budget: watchdog.Budget{Idle: time.Hour}, Logger: quiet,
		}
		attaching.Go(func() {
			attached[i], errs[i] = attachRuns(cfg, fmt.Sprintf("run-%d-", i), f.runs, oneCycle*3/4)
		})
	}
	attaching.Wait()
	for _, runs := range attached {
		all = append(all, runs...)
	}
	b.Cleanup(func() { closeAll(all) })
	check(b, errors.Join(errs[:]...))
	return all
}

// costs are what the hosts and the server have taken.
type costs struct {
	statements, rows, wal int64
	hosts, server         time.Duration
}

func (f *fleet) costs(b *testing.B) costs {
	b.Helper()
	c := costs{statements: f.statements.Load(), hosts: processorTime(b)}
	row := f.db.QueryRowContext(b.Context(), `SELECT pg_current_wal_lsn() - '0/0'::pg_lsn,
		(SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables)`)
	check(b, row.Scan(&c.wal, &c.rows))
	pids, err := f.db.QueryContext(b.Context(), "SELECT pid FROM pg_stat_activity")
	check(b, err)
	defer pids.Close()
	postmaster := 0
	for pids.Next() {
		var pid int
		check(b, pids.Scan(&pid))
		parent, own, _ := processTimes(b, pid)
		postmaster, c.server = parent, c.server+own
	}
	check(b, pids.Err())
	_, own, ended := processTimes(b, postmaster)
	c.server += own + ended
	return c
}

// measure reports what some work costs.
func (f *fleet) measure(b *testing.B, work func()) {
	b.Helper()
	before, began := f.costs(b), time.Now()
	work()
	c, seconds := f.costs(b), time.Since(began).Seconds()
	b.ReportMetric(float64(c.statements-before.statements)/seconds, "statements/s")
	b.ReportMetric(float64(c.rows-before.rows)/seconds, "rows/s")
	b.ReportMetric(float64(c.wal-before.wal)/seconds, "WAL-B/s")
	b.ReportMetric(100*(c.hosts-before.hosts).Seconds()/seconds, "%core-hosts")
	b.ReportMetric(100*(c.server-before.server).Seconds()/seconds, "%core-server")
}

// processTimes returns the parent of a process, its processor time, and that of its children that have ended.
func processTimes(b *testing.B, pid int) (parent int, own, ended time.Duration) {
	b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check(b, err)
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:]) // from the third on
	number := func(field int) int64 {
		n, err := strconv.ParseInt(string(fields[field-3]), 10, 64)
		check(b, err)
		return n
	}
	const tick = 10 * time.Millisecond
	content, err = os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid)) // a tick is longer than what a backend takes
	check(b, err)
	own, err = time.ParseDuration(string(bytes.Fields(content)[0]) + "ns")
	check(b, err)
	return int(number(4)), own, time.Duration(number(16)+number(17)) * tick
}

// endsElsewhere is how many runs the fleet has ended.
const endsElsewhere = 200_000

var endedRows = fmt.Sprintf(`
	INSERT INTO watchdog_sessions (run_id, status, created_at, started_at, attempt, reason, ended_at, ended)
	SELECT 'run-' || n, 'cancelled', now(), now(), 1, 'watchdog_idle_timeout', now(), pg_current_xact_id()
	FROM generate_series(1, %d) AS n`, endsElsewhere)

// holdTransaction begins a transaction that has written, and is forgotten until the end.
func (c *crowd) holdTransaction(b *testing.B) {
	b.Helper()
	tx, err := c.db.BeginTx(context.WithoutCancel(b.Context()), nil)
	check(b, err)
	_, err = tx.ExecContext(b.Context(), "SELECT pg_current_xact_id()")
	check(b, err)
	b.Cleanup(func() { check(b, tx.Rollback()) })
}
