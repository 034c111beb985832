//go:build linux

package histories_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/ramdisk"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

const (
	processes = 3 // that live at once
	// faultPause is how long it is on average from a fault of a process to the next.
	faultPause = 100 * time.Millisecond
	// patience is how long processes may take for anything.
	patience = time.Minute
)

// A process is a child that calls a store.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	done   chan struct{} // closed when it has ended and was waited for
	err    error         // of Wait
}

// A crowd is the processes of a test, with those that were killed.
type crowd struct {
	*testing.T
	database
	job    // of all, but for the name and the seed
	rand   *rand.Rand
	calls  *tally
	living [processes]*process
	paths  []string // of the journals
}

// start starts processes that make so many calls, of objects that come again after so many slots. Their faults are
// random.
func start(t *testing.T, db database, calls, slots int64) *crowd {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("the faults are those of seed %d", seed)
	c := &crowd{
		T: t, database: db, job: job{Database: db.address, Folder: t.TempDir(), Calls: calls, Slots: slots},
		rand: rand.New(rand.NewPCG(seed, 0)),
	}
	var err error
	c.calls, err = openTally(c.tally())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.calls.close()) })
	c.spawnAll()
	return c
}

func (c *crowd) spawnAll() {
	c.Helper()
	for i := range c.living {
		c.spawn(i)
	}
}

// disturb has faults of processes and of the database until there were enough calls.
func (c *crowd) disturb() {
	c.Helper()
	faults := 0
	var ofDatabase sync.WaitGroup
	own := rand.New(rand.NewPCG(c.rand.Uint64(), 0))
	ofDatabase.Go(func() {
		var err error
		faults, err = c.database.disturb(own, c.goesOn)
		assert.NoError(c, err)
	})
	killed, stopped := 0, 0
	for c.goesOn() {
		pause(c.rand, 2*faultPause)
		if place := c.rand.IntN(processes); c.rand.IntN(2) == 0 {
			c.living[place].kill()
			c.spawn(place)
			killed++
		} else {
			c.living[place].stop(c.rand)
			stopped++
		}
	}
	ofDatabase.Wait()
	c.Logf("%d processes were killed and %d stopped, the database had %d faults", killed, stopped, faults)
}

// journals waits for the processes, and returns what is in their journals and those of others before.
func (c *crowd) journals() (all [][]line) {
	c.Helper()
	for _, p := range c.living {
		c.wait(p)
	}
	for _, path := range c.paths {
		lines, err := readJournal(path)
		require.NoError(c, err)
		all = append(all, lines)
	}
	return all
}

func (c *crowd) goesOn() bool { return c.calls.Load() < c.Calls }

// untilCalls waits until there were so many calls.
func (c *crowd) untilCalls(n int64) error {
	for began := time.Now(); c.calls.Load() < n; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			return fmt.Errorf("the processes make %d calls instead of %d", c.calls.Load(), n)
		}
	}
	return nil
}

// spawn starts a process in a place, which cannot outlive the test.
func (c *crowd) spawn(place int) {
	c.Helper()
	self, err := os.Executable()
	require.NoError(c, err)
	j := c.job
	j.Name, j.Seed = fmt.Sprintf("p%d", len(c.paths)), c.rand.Uint64()
	text, err := json.Marshal(j)
	require.NoError(c, err)
	require.NoError(c, os.WriteFile(j.journal(), nil, 0o600)) // also of one that is killed before it opens it
	c.paths = append(c.paths, j.journal())
	p := &process{cmd: exec.Command(self), done: make(chan struct{})}
	// Without GORACE each child would exit a second late.
	p.cmd.Env = append(os.Environ(), asChild+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // one that is stopped does nothing else
	require.NoError(c, p.cmd.Start())
	c.Cleanup(p.kill)
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	c.living[place] = p
}

// kill sends SIGKILL and waits for the end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it fails if the process has ended
	<-p.done
}

// stop has the process stand still for a while.
func (p *process) stop(r *rand.Rand) {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	pause(r, faultPause)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
}

// wait waits for a process that nobody killed.
func (c *crowd) wait(p *process) {
	c.Helper()
	select {
	case <-p.done:
		require.NoErrorf(c, p.err, "the process printed\n%s", &p.stderr)
	case <-time.After(patience):
		require.Fail(c, "a process does not end")
	}
}

// A journal is the file in which a process notes its calls. A line is one write, so that a process which is killed
// leaves whole lines, but for the last.
type journal struct {
	file *os.File

	mu   sync.Mutex
	last int
	err  error // of the first write that failed
}

// A line is the begin of a call or, with Out, its answer.
type line struct {
	ID     int             `json:"id"` // of the call, in this journal
	At     time.Duration   `json:"at"` // since boot
	Object string          `json:"object,omitempty"`
	In     json.RawMessage `json:"in,omitempty"`
	Out    json.RawMessage `json:"out,omitempty"`
}

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{file: file}, err
}

// call notes that a call about an object begins, and returns what notes its answer.
func (j *journal) call(object string, in any) (answered func(out any)) {
	j.mu.Lock()
	j.last++
	id := j.last
	j.mu.Unlock()
	j.write(line{ID: id, At: sinceBoot(), Object: object, In: j.encode(in)})
	return func(out any) {
		at := sinceBoot()
		j.write(line{ID: id, At: at, Out: j.encode(out)})
	}
}

func (j *journal) encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	j.fail(err)
	return text
}

func (j *journal) write(l line) {
	text := append(j.encode(l), '\n')
	_, err := j.file.Write(text)
	j.fail(err)
}

func (j *journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = err
	}
}

// close returns the error of the first write that failed, too.
func (j *journal) close() error {
	err := j.file.Close()
	if j.err != nil {
		return j.err
	}
	return err
}

// readJournal returns the lines of a journal whose process has ended. A last line that was cut off is dropped.
func readJournal(path string) (lines []line, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for scanner := bufio.NewScanner(bytes.NewReader(whole)); scanner.Scan(); {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", path, err, scanner.Text())
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// sinceBoot returns how long this machine has been awake since it was started. All its processes agree on it.
func sinceBoot() time.Duration {
	const clockMonotonic = 1
	var t syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&t)), 0)
	if failed != 0 {
		panic("read the monotonic clock: " + failed.Error())
	}
	return time.Duration(t.Nano())
}

// openStore opens the store at a path, or that of a connection string.
func openStore(address string) (s store, closed func() error, err error) {
	if !strings.Contains(address, "://") {
		file, err := sqlite.Open(context.Background(), address)
		if err != nil {
			return nil, nil, err
		}
		return file, file.Close, nil
	}
	for range tries { // its connection can be ended while the store opens, or there is no primary
		var server *postgres.Store
		if server, err = postgres.Open(context.Background(), address, postgres.Config{Logger: quiet}); err == nil {
			return server, func() error { server.Close(); return nil }, nil
		}
		time.Sleep(retryPause)
	}
	return nil, nil, err
}

// A database is one with the faults that it has beside those of processes.
type database struct {
	address string
	// disturb does one fault after the other while goesOn says so, and returns how many.
	disturb func(r *rand.Rand, goesOn func() bool) (faults int, err error)
}

// oneOf returns a disturb that picks one of the faults each time, and pauses before it.
func oneOf(all ...func(*rand.Rand) error) func(*rand.Rand, func() bool) (int, error) {
	return func(r *rand.Rand, goesOn func() bool) (faults int, err error) {
		for ; goesOn() && err == nil; faults++ {
			pause(r, 2*faultPause)
			err = all[r.IntN(len(all))](r)
		}
		return faults, err
	}
}

// newFile makes a database file that a stranger locks.
func newFile(t *testing.T) database {
	t.Helper()
	path := filepath.Join(t.TempDir(), "histories.db")
	s, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	lock := func(r *rand.Rand) error {
		conn, err := db.Conn(t.Context())
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.ExecContext(t.Context(), "PRAGMA busy_timeout = 60000; BEGIN IMMEDIATE"); err != nil {
			return err
		}
		pause(r, 3*patienceOfCall/2)
		_, err = conn.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK")
		return err
	}
	return database{path, oneOf(lock)}
}

// newServer starts a server whose connections are ended, and whose rows a stranger locks.
func newServer(t *testing.T) database {
	t.Helper()
	server := pgtest.Start(t, pgtest.Options{})
	address := server.DSN(server.Database(t))
	s, err := postgres.Open(t.Context(), address, postgres.Config{Logger: quiet})
	require.NoError(t, err)
	s.Close()
	with := func(do func(context.Context, *pgx.Conn) error) error {
		conn, err := pgx.Connect(t.Context(), address)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		return do(t.Context(), conn)
	}
	cut := func(r *rand.Rand) error {
		return with(func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < $1`, r.Float64())
			return err
		})
	}
	lock := func(r *rand.Rand) error {
		return with(func(ctx context.Context, conn *pgx.Conn) error {
			if _, err := conn.Exec(ctx, `BEGIN; SELECT FROM watchdog_sessions FOR UPDATE SKIP LOCKED`); err != nil {
				return err
			}
			pause(r, 3*patienceOfCall/2)
			_, err := conn.Exec(ctx, "ROLLBACK")
			return err
		})
	}
	return database{address, oneOf(cut, cut, lock)}
}

// pause is how long a fault lasts, up to a time.
func pause(r *rand.Rand, most time.Duration) { time.Sleep(time.Duration(r.Int64N(int64(most)))) }

// asChild makes the test binary a process that calls a store. Its value is a job as JSON.
const asChild = "WATCHDOG_HISTORIES_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(asChild); text != "" {
		if err := work(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ramdisk.Use()
	_ = flag.Set("test.parallel", "6") // they wait for servers and slots most of the time
	goleak.VerifyTestMain(m)
}
