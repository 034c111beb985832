package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
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

// hostVariable makes the test binary a host. Its value is the way and the number of the host's commands.
const hostVariable = "WATCHDOG_BENCH_HOST"

func TestMain(m *testing.M) {
	if task := os.Getenv(hostVariable); task != "" {
		if err := beHost(task); err != nil {
			fmt.Fprintln(os.Stderr, "host:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// A way runs a command that prints nothing until ctx ends, in a host.
type way struct {
	name string
	// inside says that ctx is a run's.
	inside bool
	run    func(ctx context.Context) error
}

var ways = []way{
	{name: "exec", run: func(ctx context.Context) error { return exec.CommandContext(ctx, "sleep", "1h").Run() }},
	{name: "outside", run: guarded},
	{name: "inside", inside: true, run: guarded},
}

func guarded(ctx context.Context) error {
	cfg := stall.Config{Step: "step", NoOutput: time.Hour}
	if watchdog.FromContext(ctx) == nil {
		cfg.Store = &watchdog.Memory{}
	}
	_, err := stall.Run(ctx, exec.Command("sleep", "1h"), cfg)
	return err
}

// A host is a process of its own that runs idle commands, so that nothing else in it wakes up or takes memory.
type host struct {
	// pids are the host's and its guard's. The second one is missing with os/exec.
	pids []int
}

// startHost returns when all commands of the host run and nothing has to settle any more. The benchmark's end ends it.
func startHost(b *testing.B, w way, commands int) *host {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s:%d", hostVariable, w.name, commands))
	cmd.Stderr = os.Stderr
	orders, err := cmd.StdinPipe()
	require.NoError(b, err)
	reports, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		require.NoError(b, orders.Close())
		require.NoError(b, cmd.Wait())
	})
	_, err = bufio.NewReader(reports).ReadString('\n')
	require.NoError(b, err, "the host is ready")
	h := &host{pids: []int{cmd.Process.Pid}}
	for _, child := range children(cmd.Process.Pid) {
		if name, _ := os.ReadFile(proc(child, "comm")); string(name) == "wdguard\n" {
			h.pids = append(h.pids, child)
		}
	}
	return h
}

// atOnce is how many commands a host starts at once: on a busy machine a thousand could take longer than a start may.
const atOnce = 50

// beHost runs commands that sleep until its input ends.
func beHost(task string) error {
	name, count, _ := strings.Cut(task, ":")
	commands, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	w := ways[slices.IndexFunc(ways, func(w way) bool { return w.name == name })]
	slog.SetDefault(slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	running := ctx
	if w.inside {
		run, err := watchdog.New(ctx, watchdog.Run{ID: "run", StartedAt: time.Now()}, watchdog.Config{
			Store: &watchdog.Memory{}, Budget: watchdog.Budget{Idle: time.Hour},
		})
		if err != nil {
			return err
		}
		defer run.Close()
		running = run.Context()
	}
	var all sync.WaitGroup
	for started := range commands {
		if started%atOnce == 0 {
			awaitSleeping(started)
		}
		all.Go(func() {
			if err := w.run(running); ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "host:", err)
				os.Exit(1)
			}
		})
	}
	awaitSleeping(commands)
	debug.FreeOSMemory()
	time.Sleep(time.Second) // until the garbage collector and the scheduler have settled
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // only the end counts
	cancel()
	all.Wait()
	return nil
}

// awaitSleeping waits until this process, or its guard, has that many children that execute sleep.
func awaitSleeping(commands int) {
	sleeping := 0
	for sleeping < commands {
		time.Sleep(10 * time.Millisecond)
		sleeping = 0
		for _, child := range children(os.Getpid()) {
			for _, pid := range append(children(child), child) {
				if name, _ := os.ReadFile(proc(pid, "comm")); string(name) == "sleep\n" {
					sleeping++
				}
			}
		}
	}
}

// children returns the PIDs of the children of a process.
func children(pid int) (all []int) {
	files, _ := filepath.Glob(proc(pid, "task", "*", "children"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

func proc(pid int, names ...string) string {
	return filepath.Join(append([]string{"/proc", strconv.Itoa(pid)}, names...)...)
}

// statusNumber returns a number of a /proc status file, 0 if there is none.
func statusNumber(file, field string) int {
	text, _ := os.ReadFile(file)
	_, rest, _ := strings.Cut(string(text), "\n"+field+":")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(line), " kB"))
	return n
}
