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

// BenchmarkFleet measures five hosts, each with 10,000 live runs and a pool of its own, on one PostgreSQL server, for a
// minute: what they and the server take, with one activity a second of each run, and with nothing new for more than a
// minute, when the rows already say so; and without leases, where each host writes the time of the last event into each
// of its rows once a minute, whether there is something new or not. The hosts share this process. The first two take
// three minutes each.
func BenchmarkFleet(b *testing.B) {
	b.Run("nothing-new", func(b *testing.B) { newFleet(b).keep(b, 85*time.Second, beIdle) })
	b.Run("active", func(b *testing.B) { newFleet(b).keep(b, 0, beActive) })
	b.Run("without-leases", func(b *testing.B) { newFleet(b).writeRows(b) })
}

// A fleet is hosts with one server.
type fleet struct {
	db         *sql.DB
	statements atomic.Int64 // of the hosts
	pools      [fleetHosts]*pgxpool.Pool
	stores     [fleetHosts]session.Store
}

func newFleet(b *testing.B) *fleet {
	b.Helper()
	server := pgtest.Start(b, pgtest.Options{Fsync: true})
	dsn, f := server.DSN(server.Database(b)), &fleet{}
	var err error
	f.db, err = sql.Open("pgx", dsn)
	must(b, err)
	b.Cleanup(func() { must(b, f.db.Close()) })
	for i := range f.stores {
		config, err := pgxpool.ParseConfig(dsn)
		must(b, err)
		config.ConnConfig.Tracer = tracer{&f.statements}
		f.pools[i], err = pgxpool.NewWithConfig(b.Context(), config)
		must(b, err)
		b.Cleanup(f.pools[i].Close)
		store, err := postgres.New(b.Context(), f.pools[i], postgres.Config{})
		must(b, err)
		b.Cleanup(func() { must(b, store.Close()) })
		f.stores[i] = store
	}
	return f
}

// keep measures runs that keepers keep while they do some work, a time after they were attached.
func (f *fleet) keep(b *testing.B, after time.Duration, do work) {
	b.Helper()
	f.setCommits(b, "off") // the attaches are not measured
	all := attachFleet(b, f.stores[:])
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
	_, err := f.db.ExecContext(b.Context(), inPostgres.rows, fleetHosts*liveRuns, 0)
	must(b, err)
	for b.Loop() {
		f.measure(b, func() {
			var errs [fleetHosts]error
			var writing sync.WaitGroup
			for i, pool := range f.pools {
				writing.Go(func() { errs[i] = writeEachRow(b.Context(), pool, i*liveRuns) })
			}
			writing.Wait()
			must(b, errors.Join(errs[:]...))
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
		must(b, err)
	}
}

// attachFleet attaches the runs of all hosts at once, over three quarters of a minute.
func attachFleet(b *testing.B, stores []session.Store) (all []*watchdog.Watchdog) {
	b.Helper()
	var attaching sync.WaitGroup
	attached, errs := make([][]*watchdog.Watchdog, len(stores)), make([]error, len(stores))
	for i, store := range stores {
		cfg := watchdog.Config{
			Store: &watchdog.Memory{}, Keeper: keep(b, store), Budget: watchdog.Budget{Idle: time.Hour}, Logger: quiet,
		}
		attaching.Go(func() {
			attached[i], errs[i] = attachRuns(cfg, fmt.Sprintf("run-%d-", i), oneCycle*3/4)
		})
	}
	attaching.Wait()
	for _, runs := range attached {
		all = append(all, runs...)
	}
	b.Cleanup(func() { closeAll(all) })
	must(b, errors.Join(errs...))
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
	must(b, row.Scan(&c.wal, &c.rows))
	pids, err := f.db.QueryContext(b.Context(), "SELECT pid FROM pg_stat_activity")
	must(b, err)
	defer pids.Close()
	postmaster := 0
	for pids.Next() {
		var pid int
		must(b, pids.Scan(&pid))
		parent, own, _ := processTimes(b, pid)
		postmaster, c.server = parent, c.server+own
	}
	must(b, pids.Err())
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
	must(b, err)
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:]) // from the third on
	number := func(field int) int64 {
		n, err := strconv.ParseInt(string(fields[field-3]), 10, 64)
		must(b, err)
		return n
	}
	const tick = 10 * time.Millisecond
	return int(number(4)), time.Duration(number(14)+number(15)) * tick, time.Duration(number(16)+number(17)) * tick
}
