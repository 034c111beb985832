package sweeptest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/ramdisk"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/sweep"
)

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
