package sweeptest_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/ramdisk"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
	"github.com/seed62658d38/watchdog/sweep"
)

// sweepersDie kills sweepers in many processes, and in PostgreSQL the server, while some stalled sessions wake up.
func sweepersDie(t *testing.T, db *database) {
	db.seed(t, db.stalled+100, db.stalled)
	f := &fleet{t: t, db: db}
	waking := f.wakeUp()
	all := db.stalled - db.woken
	for round := 1; round <= 10; round++ {
		f.await(round * all / 12)
		f.replaceOne()
		if round == 5 && db.server != nil {
			db.server.Kill()
			require.NoError(t, db.server.Restart())
		}
	}
	f.finish(waking)
}

// A fleet is a group of sweepers in processes of their own.
type fleet struct {
	t       *testing.T
	db      *database
	members []*process
}

func (f *fleet) start() *process { return start(f.t, job{DSN: f.db.dsn}) }

// replaceOne kills a random sweeper with SIGKILL and starts another.
func (f *fleet) replaceOne() {
	f.t.Helper()
	at := rand.IntN(len(f.members))
	f.members[at].kill()
	f.members[at] = f.start()
}

// await waits until n sessions are cancelled.
func (f *fleet) await(n int) {
	f.t.Helper()
	enough := func() bool { return f.db.cancelled() >= n }
	require.Eventually(f.t, enough, patience, 5*time.Millisecond, "waiting for %d cancels", n)
}

// A wokenSessions records the sessions that woke up, and whether each was cancelled by then.
type wokenSessions struct {
	gone  map[string]bool
	ended chan struct{}
}

// wakeUp starts the sweepers and writes events of sessions as their host would: of some before a sweeper runs, of the
// others while they do. Those can be cancelled before, at the same time, or not.
func (f *fleet) wakeUp() *wokenSessions {
	f.t.Helper()
	const batch = 5
	w := &wokenSessions{map[string]bool{}, make(chan struct{})}
	host, ctx := f.db.store(f.t), f.t.Context()
	waking := rand.Perm(f.db.stalled)[:f.db.woken]
	others := f.db.stalled - f.db.woken
	stopRenewing := f.renewLease(host)
	w.writeEvents(ctx, host, waking[:batch])
	for range f.db.processes {
		f.members = append(f.members, f.start())
	}
	go func() {
		defer close(w.ended)
		defer stopRenewing()
		for n := batch; n < len(waking) && ctx.Err() == nil; n += batch {
			for f.db.cancelled() < others*n/len(waking)*3/4 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			w.writeEvents(ctx, host, waking[n:n+batch])
		}
	}()
	f.t.Cleanup(func() { <-w.ended })
	return w
}

// hostLease is the lease of the host that writes events.
const hostLease = "the-host"

// renewLease keeps the lease of the host alive until stop is called.
func (f *fleet) renewLease(host session.Store) (stop func()) {
	f.t.Helper()
	l := session.Lease{ID: hostLease, Host: "host", Promise: session.ShortestPromise, Beat: 1}
	require.NoError(f.t, host.BeginLease(f.t.Context(), l))
	ctx, stop := context.WithCancel(f.t.Context())
	go func() {
		tick := time.NewTicker(session.ShortestPromise / 5)
		defer tick.Stop()
		for ctx.Err() == nil {
			l.Beat++
			_ = host.RenewLease(ctx, l) // an outage is a part of the test
			<-tick.C
		}
	}()
	return stop
}

// writeEvents writes until it succeeds: after an error it is unknown whether the write happened.
func (w *wokenSessions) writeEvents(ctx context.Context, host session.Store, numbers []int) {
	var fresh []session.Freshness
	for _, n := range numbers {
		fresh = append(fresh, session.Freshness{RunID: runNumber(n + 1), Attempt: 1, Activity: 1})
		w.gone[runNumber(n+1)] = false
	}
	skipped, err := host.Freshen(ctx, hostLease, fresh)
	for (err != nil || len(skipped.Locked) > 0) && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
		skipped, err = host.Freshen(ctx, hostLease, fresh)
	}
	for _, runID := range skipped.Gone {
		w.gone[runID] = true
	}
}

// finish waits for the remaining cancels, ends the sweepers, and checks the result.
func (f *fleet) finish(w *wokenSessions) {
	f.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(patience):
		require.Fail(f.t, "the sweepers do not exit")
	}
	awake := 0
	for _, gone := range w.gone {
		if !gone {
			awake++
		}
	}
	f.t.Logf("%d of %d sessions woke up in time", awake, len(w.gone))
	require.Positive(f.t, awake)
	f.await(f.db.stalled - awake)
	for _, p := range f.members {
		p.end()
	}
	f.check(w)
}

// check checks every row: sessions that woke up are active without a cancel, stalled ones are cancelled once.
func (f *fleet) check(w *wokenSessions) {
	f.t.Helper()
	statuses, cancels := f.db.statuses(f.t), f.db.cancels(f.t)
	require.Len(f.t, statuses, f.db.stalled+100)
	for i := 1; i <= len(statuses); i++ {
		runID := runNumber(i)
		gone, woken := w.gone[runID]
		if i > f.db.stalled || woken && !gone {
			require.Equal(f.t, "active", statuses[runID], "%s, which is awake", runID)
			require.Zero(f.t, cancels[runID], "the cancels of %s, which is awake", runID)
			continue
		}
		require.Equal(f.t, "cancelled", statuses[runID], "%s, which is stalled", runID)
		require.Equal(f.t, 1, cancels[runID], "the cancels of %s", runID)
	}
}

// liveRun cancels a live run of another process with a sweeper.
func liveRun(t *testing.T, db *database) {
	j := newHost(db)
	first := start(t, j)
	require.Equal(t, watchdog.Attempt{Number: 1}, first.must().Attempt)
	sweepUntilCancelled(t, db)
	require.Equal(t, watchdog.SessionIdleTimeout, first.must().Cause)
	requireRow(t, db, j.Run, cancelledRow(watchdog.SessionIdleTimeout, 1))
	first.end()
	requireRow(t, db, j.Run, cancelledRow(watchdog.SessionIdleTimeout, 1))

	j.Resume, j.Host = true, "host-b"
	second := start(t, j)
	require.Equal(t, watchdog.Attempt{Number: 2, Stopped: true}, second.must().Attempt)
	requireRow(t, db, j.Run, session.Session{Status: session.Active, Attempt: 2, Host: "host-b"})
	second.end()
	requireRow(t, db, j.Run, session.Session{Status: session.Finished, Attempt: 2, Host: "host-b"})
	require.Equal(t, map[string]int{j.Run: 1}, db.cancels(t))
}

// killedHost kills a host twice and sweeps its session.
func killedHost(t *testing.T, db *database) {
	j := newHost(db)
	crash := func(want watchdog.Attempt) {
		t.Helper()
		p := start(t, j)
		require.Equal(t, want, p.must().Attempt)
		p.kill()
		requireRow(t, db, j.Run, session.Session{Status: session.Active, Attempt: want.Number, Host: "host-a"})
	}
	crash(watchdog.Attempt{Number: 1})
	crash(watchdog.Attempt{Number: 2, Lost: true})
	sweepUntilCancelled(t, db)
	requireRow(t, db, j.Run, cancelledRow(watchdog.SessionHostLost, 2))
	require.Equal(t, map[string]int{j.Run: 1}, db.cancels(t))
	j.Resume = true
	crash(watchdog.Attempt{Number: 3, Stopped: true}) // not lost: the sweeper recorded how the attempt before ended
}

// cancelledRow is the row of a run of host-a that a sweeper cancelled.
func cancelledRow(reason watchdog.StopReason, attempt int) session.Session {
	return session.Session{Status: session.Cancelled, Attempt: attempt, Host: "host-a", Reason: reason}
}

// newHost returns the job of a run's host. In PostgreSQL it never polls during a test: it must be notified.
func newHost(db *database) job {
	j := job{DSN: db.dsn, Run: "s-1", Host: "host-a", StartedAt: time.Now(), Poll: 50 * time.Millisecond}
	if strings.HasPrefix(db.dsn, "postgres:") {
		j.Poll = time.Hour
	}
	return j
}

// sweepUntilCancelled sweeps until one session is cancelled.
func sweepUntilCancelled(t *testing.T, db *database) {
	t.Helper()
	s := db.store(t)
	sweeper, err := sweep.New(s, s, sweep.Config{
		StalledThreshold: 300 * time.Millisecond, MinAge: watchdog.None, Logger: quiet,
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		p, err := sweeper.Sweep(t.Context())
		return assert.NoError(t, err) && p.Cancelled == 1
	}, patience, 10*time.Millisecond)
}

// requireRow compares the fields that do not depend on the time.
func requireRow(t *testing.T, db *database, runID string, want session.Session) {
	t.Helper()
	row, err := db.store(t).Session(t.Context(), runID)
	require.NoError(t, err)
	got := session.Session{Status: row.Status, Attempt: row.Attempt, Host: row.Host, Reason: row.Reason}
	require.Equal(t, want, got)
}

// A database reads the tables without the library.
type database struct {
	*sql.DB
	dsn    string
	server *pgtest.Server // nil for SQLite
	zone   string         // of the times that are written
	// processes, stalled and woken are the sizes of the test with many sweepers.
	processes, stalled, woken int
}

// A store is a host's store that can be closed.
type store interface {
	session.Store
	io.Closer
}

// openStore opens an SQLite path or a PostgreSQL connection string.
func openStore(ctx context.Context, dsn string) (store, error) {
	if strings.HasPrefix(dsn, "postgres:") {
		return postgres.Open(ctx, dsn, postgres.Config{})
	}
	return sqlite.Open(ctx, dsn)
}

func newSQLite(t *testing.T) *database {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sessions.db")
	db := &database{dsn: file, processes: 3, stalled: 200, woken: 50}
	return db.open(t, "sqlite", "file:"+file+"?_pragma=busy_timeout(20000)")
}

func newPostgres(t *testing.T, server *pgtest.Server) *database {
	t.Helper()
	dsn := server.DSN(server.Database(t))
	db := &database{dsn: dsn, server: server, zone: "Z", processes: 5, stalled: 2000, woken: 500}
	if racing.Enabled {
		db.stalled, db.woken = 400, 100
	}
	return db.open(t, "pgx", dsn)
}

// open makes a store create the tables, then opens the database for the test.
func (db *database) open(t *testing.T, driver, source string) *database {
	t.Helper()
	db.store(t)
	plain, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plain.Close()) })
	db.DB = plain
	return db
}

// store opens another host's store.
func (db *database) store(t *testing.T) store {
	t.Helper()
	s, err := openStore(t.Context(), db.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func runNumber(i int) string { return fmt.Sprintf("run-%07d", i) }

// seed inserts n active sessions. First come the stalled ones, each a minute older, then those with an event in the
// last five minutes.
func (db *database) seed(t *testing.T, n, stalled int) {
	t.Helper()
	var rows []string
	for i := 1; i <= n; i++ {
		age := time.Duration(i%300) * time.Second
		if i <= stalled {
			age = 15*time.Minute + time.Duration(i)*time.Minute
		}
		const layout, began = "2006-01-02 15:04:05.000000", "2026-01-01 00:00:00.000000"
		last := time.Now().Add(-age).UTC().Format(layout)
		rows = append(rows, fmt.Sprintf("('%[1]s', 'active', '%[2]s%[4]s', '%[3]s%[4]s', '%[2]s%[4]s', 'host', 1)",
			runNumber(i), began, last, db.zone))
	}
	_, err := db.ExecContext(t.Context(), "INSERT INTO watchdog_sessions "+
		"(run_id, status, created_at, last_event_at, started_at, host, attempt) VALUES "+strings.Join(rows, ", "))
	require.NoError(t, err)
}

// cancelled counts the cancelled rows. It returns 0 while the database is down.
func (db *database) cancelled() (n int) {
	const count = "SELECT count(*) FROM watchdog_sessions WHERE status = 'cancelled'"
	err := db.QueryRowContext(context.Background(), count).Scan(&n)
	if err != nil {
		return 0
	}
	return n
}

// statuses returns the status of every row by run ID.
func (db *database) statuses(t *testing.T) map[string]string {
	t.Helper()
	return pairs[string](t, db, "SELECT run_id, status FROM watchdog_sessions")
}

// cancels returns the number of cancel events by run ID.
func (db *database) cancels(t *testing.T) map[string]int {
	t.Helper()
	return pairs[int](t, db, fmt.Sprintf(
		"SELECT aggregate_id, count(*) FROM events WHERE event_type = '%s' GROUP BY aggregate_id", event.Cancel))
}

func pairs[V any](t *testing.T, db *database, query string) map[string]V {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	require.NoError(t, err)
	defer rows.Close()
	all := map[string]V{}
	for rows.Next() {
		var key string
		var value V
		require.NoError(t, rows.Scan(&key, &value))
		all[key] = value
	}
	require.NoError(t, rows.Err())
	return all
}

// A job is what a child does until its input ends: it sweeps, or with Run it is the host of a run.
type job struct {
	DSN string

	Run       string
	StartedAt time.Time
	Host      string
	Resume    bool
	Poll      time.Duration
}

// A line is what a child prints.
type line struct {
	// Attempt is the host's attempt at the run, Cause the cause of the context's end.
	Attempt watchdog.Attempt    `json:",omitzero"`
	Cause   watchdog.StopReason `json:",omitempty"`
}

var quiet = slog.New(slog.DiscardHandler)

// work is the child's main.
func work(text string, in io.Reader, out io.Writer) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	s, err := openStore(ctx, j.DSN)
	for began := time.Now(); err != nil && ctx.Err() == nil && time.Since(began) < patience; {
		time.Sleep(20 * time.Millisecond) // like a supervisor that restarts a program while the server is down
		s, err = openStore(ctx, j.DSN)
	}
	if err != nil && ctx.Err() != nil {
		return nil //nolint:nilerr // it was asked to end before the server was back
	}
	if err != nil {
		return err
	}
	if j.Run == "" {
		err = sweepAll(ctx, s)
	} else {
		err = j.host(ctx, s, json.NewEncoder(out))
	}
	return errors.Join(err, s.Close())
}

// sweepAll sweeps in short passes of few cancels, so that many processes take part.
func sweepAll(ctx context.Context, s store) error {
	sweeper, err := sweep.New(s, s, sweep.Config{
		Interval: 20 * time.Millisecond, StartupDelay: watchdog.None, MaxCancellationsPerRun: 20, Logger: quiet,
	})
	if err != nil {
		return err
	}
	return sweeper.Run(ctx)
}

// host attaches to a run, prints the attempt and later the run's end, and waits for the end of the input. It says soon
// that its run is quiet: after a quarter of its threshold.
func (j job) host(ctx context.Context, s store, lines *json.Encoder) error {
	keeper, err := session.NewKeeper(session.KeeperConfig{
		Store: s, Host: j.Host, Promise: session.ShortestPromise, Threshold: time.Second,
		Pace: 50 * time.Millisecond, Poll: j.Poll, Logger: quiet,
	})
	if err != nil {
		return err
	}
	keeping, stop := context.WithCancel(context.Background())
	var kept sync.WaitGroup
	kept.Go(func() { _ = keeper.Run(keeping) })
	defer kept.Wait()
	defer stop()
	attach := watchdog.New
	if j.Resume {
		attach = watchdog.Resume
	}
	cfg := watchdog.Config{Store: s, Keeper: keeper, Logger: quiet}
	wd, err := attach(context.Background(), watchdog.Run{ID: j.Run, StartedAt: j.StartedAt}, cfg)
	if err != nil {
		return err
	}
	wd.Activity() // a run that never signals is not silent
	err = lines.Encode(line{Attempt: wd.Attempt()})
	select {
	case <-wd.Context().Done():
		var said line
		if stopped := (*watchdog.Stop)(nil); errors.As(context.Cause(wd.Context()), &stopped) {
			said.Cause = stopped.Code
		}
		err = errors.Join(err, lines.Encode(said))
		<-ctx.Done()
	case <-ctx.Done():
	}
	return errors.Join(err, wd.Close())
}

// A process is a child of the test.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	input  io.Closer
	lines  *json.Decoder
	wait   func() error // once, however often it is called
	stderr bytes.Buffer
}

// start starts a child.
func start(t *testing.T, j job) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(j)
	require.NoError(t, err)
	p := &process{t: t, cmd: exec.Command(self)}
	// Without GORACE each child would exit a second late.
	p.cmd.Env = append(os.Environ(), asChild+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = &p.stderr
	p.input, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	p.lines, p.wait = json.NewDecoder(out), sync.OnceValue(p.cmd.Wait)
	t.Cleanup(p.kill)
	return p
}

// must returns the child's next line.
func (p *process) must() (said line) {
	p.t.Helper()
	if err := p.lines.Decode(&said); err != nil {
		p.kill()
		require.FailNow(p.t, "the child ended early", "%v\n%s", err, &p.stderr)
	}
	return said
}

// kill sends SIGKILL and waits for the child. One that has exited stays as it is.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.wait()
}

// end makes the child exit by itself, and waits for it.
func (p *process) end() {
	p.t.Helper()
	require.NoError(p.t, p.input.Close())
	require.NoError(p.t, p.wait(), p.stderr.String())
}

// asChild makes this test binary a sweeper or a host. Its value is a job as JSON.
const asChild = "SWEEPTEST_CHILD"

// patience bounds every wait in these tests; an idle machine needs seconds at most.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if job := os.Getenv(asChild); job != "" {
		if err := work(job, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ramdisk.Use()
	_ = flag.Set("test.parallel", "12") // they wait for thresholds
	goleak.VerifyTestMain(m)
}

// The rules that hold in every database.
var rules = []struct {
	name  string
	check func(t *testing.T, db *database)
}{
	{"a cancel ends the run on another host, which can be resumed", liveRun},
	{"a killed host leaves a stale row and a lost attempt", killedHost},
	{"sweepers that die cancel each stalled session once and no session that woke up", sweepersDie},
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) { t.Parallel(); rule.check(t, newSQLite(t)) })
	}
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{})
	for _, rule := range rules { // one after the other: the last one kills the server
		t.Run(rule.name, func(t *testing.T) { rule.check(t, newPostgres(t, server)) })
	}
}
