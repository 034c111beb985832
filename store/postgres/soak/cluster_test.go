//go:build linux

package soak_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

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
