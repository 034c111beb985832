//go:build linux

package soak_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/internal/testrun"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// A kind is a kind of fault.
type kind struct {
	name        string
	least, most time.Duration // how long it lasts
	count       int           // how many of it come before all kinds of its group come again
}

// The kinds by what they hit. A host that is hit for at most two promises stays live: it has the third to write in.
var (
	hostKinds = []kind{
		{stopped, promise / 5, 2 * promise, 1}, {stopped, death + promise, 2 * death, 1},
		{killed, promise / 5, 2 * death, 1},
		{delayed, promise, 3 * promise, 1},
		{cut, promise / 5, 2 * promise, 1}, {cut, death + promise, 2 * death, 1},
		{withheld, promise / 5, 2 * promise, 1}, {withheld, death + promise, 2 * death, 1},
		{halfOpen, promise / 5, 2 * promise, 1},
		{losing, promise / 5, promise, 1},
	}
	sweeperKinds = []kind{
		{stopped, promise / 5, 2 * death, 1}, {killed, promise / 5, 2 * promise, 1},
		{delayed, promise, 3 * promise, 1}, {cut, promise / 5, 2 * promise, 1}, {withheld, promise / 5, 2 * death, 1},
		{halfOpen, promise / 5, 2 * promise, 1}, {losing, promise, 3 * promise, 3},
	}
	serverKinds = []kind{
		{fastStop, 0, 2 * promise, 1}, {immediateStop, 0, 2 * promise, 1}, {promotion, 0, 1, 1},
		{standbyAway, promise / 5, 2 * promise, 1}, {splitBrain, promise / 5, 2 * death, 1},
	}
	lockKinds = []kind{
		{rowsLocked, promise, threshold + 2*promise, 1},
		{tableLocked, promise, threshold / 2, 1}, {tableLocked, threshold + promise, threshold + 2*promise, 1},
	}
	clockKinds = []kind{
		{clockForward, threshold, 2 * threshold, 2}, {clockForward, time.Minute, 10 * time.Minute, 1},
		{clockBack, promise, threshold, 2},
	}
)

// The names of the faults.
const (
	stopped       = "SIGSTOP"
	killed        = "SIGKILL"
	delayed       = "network slow"
	cut           = "network cut"
	withheld      = "network holds all back and then delivers"
	halfOpen      = "connections half-open"
	losing        = "network loses answers after commit"
	fastStop      = "server stopped"
	immediateStop = "server stopped at once"
	promotion     = "primary killed, standby promoted"
	standbyAway   = "synchronous standby away"
	splitBrain    = "two primaries"
	rowsLocked    = "rows locked by a stranger"
	tableLocked   = "table locked by a stranger"
	clockForward  = "clock of the servers set forward"
	clockBack     = "clock of the servers set back"
)

// A fault is an entry of the schedule. Its length is how far a clock steps.
type fault struct {
	name       string
	at, length time.Duration // since the start of the soak
	target     int           // the index of the host or sweeper
	must       bool          // it comes also if a busy machine is late
}

func (f fault) String() string {
	return fmt.Sprintf("%v %s %d for %v", f.at.Round(time.Millisecond), f.name, f.target, f.length.Round(time.Millisecond))
}

// instant reports whether the fault is over at once.
func (f fault) instant() bool { return f.name == clockForward || f.name == clockBack }

// end returns when the fault is over.
func (f fault) end() time.Duration {
	if f.instant() {
		return f.at
	}
	return f.at + f.length
}

// A group is what faults of some kinds hit: each target has one at a time.
type group struct {
	name    string
	kinds   []kind
	targets int
	pause   time.Duration // at least, between two faults of a target; three times as long at most
}

var groups = []group{
	{"host", hostKinds, hostCount, promise + promise/2},
	{"sweeper", sweeperKinds, sweeperCount, promise},
	{"server", serverKinds, 1, promise},
	{"lock", lockKinds, 1, promise / 2},
	{"clock", clockKinds, 1, promise},
}

// draw returns the faults of a group in order. Each kind comes at least once, also if that takes longer.
func (g group) draw(random *rand.Rand, length time.Duration) (all []fault) {
	free := make([]time.Duration, g.targets)
	for first := true; first || slices.Min(free) < length; first = false {
		for _, k := range g.deal(random) {
			target := slices.Index(free, slices.Min(free))
			f := fault{name: k.name, target: target, length: between(random, k.least, k.most), must: first}
			f.at = free[target] + between(random, g.pause, 3*g.pause)
			if !first && f.end() > length {
				return sorted(all)
			}
			free[target] = f.end()
			all = append(all, f)
		}
	}
	return sorted(all)
}

// deal returns all kinds of the group, each as often as it says, in random order.
func (g group) deal(random *rand.Rand) (deck []kind) {
	for _, k := range g.kinds {
		deck = append(deck, slices.Repeat([]kind{k}, k.count)...)
	}
	random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

func sorted(all []fault) []fault {
	slices.SortStableFunc(all, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	return all
}

func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}

// setBack returns how far the clocks go back in the last minute of the faults.
func setBack(all []fault) (sum time.Duration) {
	for _, f := range all {
		if f.name == clockBack && all[len(all)-1].at-f.at < time.Minute {
			sum += f.length
		}
	}
	return sum
}

func TestSchedule(t *testing.T) {
	draw := func(g group, seed uint64, length time.Duration) []fault {
		return g.draw(rand.New(rand.NewPCG(seed, 0)), length)
	}
	for _, g := range groups {
		for seed := range uint64(20) {
			short, long := draw(g, seed, 0), draw(g, seed, time.Minute)
			require.Equal(t, short, draw(g, seed, 0), "a seed gives one schedule")
			require.Greater(t, len(long), len(short))
			checkApart(t, long)
			times := map[string]int{}
			for _, f := range short {
				times[f.name]++
			}
			for _, k := range g.kinds {
				require.GreaterOrEqual(t, times[k.name], k.count, "%s comes in the shortest soak", k.name)
			}
		}
	}
}

// checkApart checks that each target has one fault at a time.
func checkApart(t *testing.T, faults []fault) {
	t.Helper()
	over := map[int]time.Duration{}
	for _, f := range faults {
		require.Greater(t, f.at, over[f.target], "%v comes after the one before", f)
		over[f.target] = f.end()
	}
}

// A host that stays live is never away for more than two promises, and a dead one for more than three.
func TestScheduleOfHosts(t *testing.T) {
	for _, k := range hostKinds {
		switch k.name {
		case killed, delayed, halfOpen:
		default:
			require.True(t, k.most <= 2*promise || k.least > death, "%+v leaves open whether the host is live", k)
		}
	}
	require.Greater(t, threshold, death, "a host that is away and live is not silent for too long")
}

// lock holds locks of a fault for its length, by a connection of its own. It reports whether it held them for a while.
func (c *cluster) lock(ctx context.Context, f fault) (held bool, err error) {
	conn, err := pgx.Connect(ctx, c.dsn())
	if err != nil {
		return false, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tables, err := ownTables(ctx, conn)
	if err != nil {
		return false, err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return false, err
	}
	for _, table := range tables {
		statement := "LOCK TABLE " + table + " IN ACCESS EXCLUSIVE MODE"
		if f.name == rowsLocked {
			statement = "SELECT FROM " + table + " WHERE random() < 0.1 FOR UPDATE SKIP LOCKED"
		} else if table != "watchdog_sessions" {
			continue
		}
		if _, err := tx.Exec(ctx, statement); err != nil {
			return false, err
		}
	}
	time.Sleep(f.length) // how long the locks are held
	return true, tx.Rollback(ctx)
}

// ownTables returns the store's tables whose rows change.
func ownTables(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, _ := conn.Query(ctx, "SELECT tablename::text FROM pg_tables "+ // rows have the error
		"WHERE schemaname = 'public' AND tablename LIKE 'watchdog%' AND tablename <> 'watchdog_schema'")
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// The form of the soak. Without flags it is the short one of long tests, and none in the others.
var (
	lengthFlag = flag.Duration("length", testrun.Rounds(0, 12*time.Second), "how long there are faults; 0 is no soak")
	runsFlag   = flag.Int("runs", 120, "the runs of each host")
	seedFlag   = flag.Uint64("seed", 0, "the seed of the faults; 0 draws one")
	onlyFlag   = flag.String("only", "", "a regular expression for the faults; empty is all")
	keepFlag   = flag.String("keep", "", "a folder for the journals and logs, which are then kept")
)

const (
	hostCount    = 5
	sweeperCount = 3
)

const (
	// promise is that of the keepers. A host that could not write for three promises is dead.
	promise = time.Second
	death   = 3 * promise
	// threshold is how long a run may be silent. It is longer than a host can be away and live.
	threshold = 4 * promise
	// sweepInterval is the time from one pass of a sweeper to the next.
	sweepInterval = 300 * time.Millisecond
	// recordTimeout bounds each call of the store by runs and sweepers.
	recordTimeout = 2 * promise
	// notices is how long a host takes to notice that its connection is half-open, and then hears of all cancels
	// meanwhile: it asks after two seconds without a word, and waits for the answer for five.
	notices = 7 * time.Second
	// slack is what a busy machine adds to what has to be done within a time.
	slack = 2 * time.Second
)

// worst is the longest time from the last sign of life of a run until a sweeper has written its end, if the database
// works: the row has to be silent for the threshold, and the lease of a dead host is observed for three promises from
// the next look on. All rows can be due at once. Clocks that go back can delay it by as much.
func worst(setBack time.Duration) time.Duration {
	const perRow = 10 * time.Millisecond
	rows := time.Duration(hostCount * *runsFlag)
	return threshold + death + promise + sweepInterval + rows*perRow + setBack + 2*slack
}

// A cluster is a primary, its synchronous standby, and the proxies that lead to both.
type cluster struct {
	database string
	clocks   *clocks
	proxies  []*proxy
	standby  *pgtest.Standby
	port     int // of the proxies, that leads to the primary

	mu      sync.Mutex
	primary *pgtest.Server
}

var errNoStandby = errors.New("there is no standby, because the one before could not be started")

// startCluster starts the servers. They are closed when the test ends.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{clocks: newClocks(t)}
	c.primary = pgtest.Start(t, c.options())
	c.database = c.primary.Database(t)
	t.Cleanup(func() { require.NoError(t, c.close()) })
	err := c.follow()
	if errors.Is(err, pgtest.ErrNotInstalled) {
		t.Skip("a standby is needed for this test:", err)
	}
	require.NoError(t, err)
	require.NoError(t, c.exec("CREATE TABLE trial (n int); INSERT INTO trial VALUES (0); CREATE TABLE written (at timestamptz)"))
	return c
}

// options are those of each server. A clock that steps must not end the replication, which the faults of the schedule do.
func (c *cluster) options() pgtest.Options {
	settings := []string{"max_connections=200", "wal_sender_timeout=0", "wal_receiver_timeout=0"}
	return pgtest.Options{Settings: settings, Environment: c.clocks.next()}
}

// close closes the servers.
func (c *cluster) close() error {
	all := []error{c.primary.Close()}
	if c.standby != nil {
		all = append(all, c.standby.Close())
	}
	return errors.Join(all...)
}

// follow starts a standby of the primary.
func (c *cluster) follow() (err error) {
	options := pgtest.StandbyOptions{Options: c.options(), Synchronous: true}
	if c.standby, err = pgtest.NewStandby(context.Background(), c.primary, options); err != nil {
		return err
	}
	for _, p := range c.proxies {
		p.lead(1-c.port, socketOf(c.standby.Server))
	}
	return nil
}

// split promotes the standby while the old primary goes on serving, without a standby, those who are left with it.
// The others do not reach it any more, and those do not reach the new one. It returns when the new one acknowledges
// commits. The returned func fences the old one: it ends, and all reach the new one.
func (c *cluster) split(left func(*proxy) bool) (fence func() error, err error) {
	if c.standby == nil {
		return nil, errNoStandby
	}
	old, gone := c.primary, c.port
	for _, p := range c.proxies {
		if left(p) {
			p.leave(1 - gone)
		} else {
			p.leave(gone)
		}
	}
	alone := errors.Join(c.exec("ALTER SYSTEM SET synchronous_standby_names = ''"), c.exec("SELECT pg_reload_conf()"))
	if err := errors.Join(alone, c.standby.Promote(context.Background())); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.primary, c.port, c.standby = c.standby.Server, 1-gone, nil
	c.mu.Unlock()
	fence = func() error {
		old.Kill()
		for _, p := range c.proxies {
			p.leave(gone)
			p.lead(1-gone, socketOf(c.primary))
		}
		return old.Close()
	}
	return fence, c.try()
}

// proxy starts a proxy, and returns the connection string through it.
func (c *cluster) proxy(t *testing.T) (*proxy, string) {
	t.Helper()
	p := startProxy(t)
	p.lead(c.port, socketOf(c.primary))
	p.lead(1-c.port, socketOf(c.standby.Server))
	c.proxies = append(c.proxies, p)
	a, b := p.ports[0].Addr().(*net.TCPAddr).Port, p.ports[1].Addr().(*net.TCPAddr).Port
	return p, fmt.Sprintf("postgres://postgres@/%s?host=127.0.0.1,127.0.0.1&port=%d,%d&sslmode=disable"+
		"&target_session_attrs=read-write&connect_timeout=1&pool_max_conns=10", c.database, a, b)
}

// dsn returns the connection string of the primary itself.
func (c *cluster) dsn() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.primary.DSN(c.database)
}

// connected makes a call with a connection of its own.
func connected(ctx context.Context, dsn string, call func(ctx context.Context, conn *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return call(ctx, conn)
}

// exec executes a statement on the primary.
func (c *cluster) exec(statement string) error {
	return connected(context.Background(), c.dsn(), func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

// restart stops the primary, and starts it again after a while.
func (c *cluster) restart(immediate bool, length time.Duration) error {
	c.primary.Stop(immediate)
	time.Sleep(length) // how long the outage is
	if err := c.primary.Restart(); err != nil {
		return err
	}
	return c.try()
}

// promote kills the primary and promotes the standby. The new primary has no standby before follow is called.
func (c *cluster) promote() error {
	if c.standby == nil {
		return errNoStandby
	}
	old := c.primary
	old.Kill()
	if err := c.standby.Promote(context.Background()); err != nil {
		return err
	}
	c.mu.Lock()
	c.primary, c.port, c.standby = c.standby.Server, 1-c.port, nil
	c.mu.Unlock()
	return errors.Join(c.try(), old.Close())
}

// loseStandby stops the standby for a while, so that no commit is acknowledged.
func (c *cluster) loseStandby(length time.Duration) error {
	if c.standby == nil {
		return errNoStandby
	}
	c.standby.Stop(false)
	time.Sleep(length) // how long the outage is
	if err := c.standby.Restart(); err != nil {
		return err
	}
	return c.try()
}

// try returns when the primary acknowledges commits, and so has its standby back.
func (c *cluster) try() error { return c.exec("UPDATE trial SET n = n + 1") }

func socketOf(s *pgtest.Server) string {
	config, err := pgconn.ParseConfig(s.DSN("postgres"))
	if err != nil {
		panic(err) // pgtest made the string
	}
	_, address := pgconn.NetworkAddress(config.Host, config.Port)
	return address
}

// clocks are the clocks of the servers, which libfaketime takes from a file.
type clocks struct {
	library string // empty if it is not installed
	folder  string

	mu    sync.Mutex
	files []string
	ahead time.Duration // of the machine's clock
}

func newClocks(t *testing.T) *clocks {
	t.Helper()
	found, err := filepath.Glob("/usr/lib*/*/faketime/libfaketime.so.1")
	require.NoError(t, err)
	if len(found) == 0 {
		t.Log("the clocks of the servers do not step: libfaketime is not installed (Debian: faketime)")
		return &clocks{}
	}
	folder, err := os.MkdirTemp("", "clock") //nolint:usetesting // the server's account may not read t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	require.NoError(t, os.Chmod(folder, 0o755)) //nolint:gosec // another account reads it
	return &clocks{library: found[0], folder: folder}
}

// next returns the environment of a server with a clock of its own, which shows what the others show.
func (c *clocks) next() []string {
	if c.library == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	file := filepath.Join(c.folder, fmt.Sprint(len(c.files)))
	if err := setClock(file, c.ahead); err != nil {
		return nil
	}
	c.files = append(c.files, file)
	return []string{
		"LD_PRELOAD=" + c.library, "FAKETIME_TIMESTAMP_FILE=" + file,
		"FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_DISABLE_SHM=1",
	}
}

// step sets the clocks of all servers forward or back.
func (c *clocks) step(by time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += by
	for _, file := range c.files {
		if err := setClock(file, c.ahead); err != nil {
			return err
		}
	}
	return nil
}

// checkClock returns an error if the primary's clock is not where the steps have set it.
func (c *cluster) checkClock() error {
	const near = 5 * time.Second
	var shown time.Time
	err := connected(context.Background(), c.dsn(), func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&shown)
	})
	if err != nil {
		return err
	}
	if ahead := time.Until(shown); (ahead - c.clocks.ahead).Abs() > near {
		return fmt.Errorf("the primary's clock is %v ahead, and was set to be %v ahead", ahead, c.clocks.ahead)
	}
	return nil
}

// lostAnswers returns how many answers the proxies did not deliver.
func (c *cluster) lostAnswers() (count int) {
	for _, p := range c.proxies {
		count += int(p.lost.Load())
	}
	return count
}

// setClock writes the file at once, because a server reads it whenever it reads its clock.
func setClock(file string, ahead time.Duration) error {
	next := file + ".next"
	text := fmt.Appendf(nil, "%+.3f\n", ahead.Seconds())
	if err := os.WriteFile(next, text, 0o644); err != nil { //nolint:gosec // another account reads it
		return err
	}
	return os.Rename(next, file)
}
