package crashtest_test

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
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// A job is a run that a child watches.
type job struct {
	ID        string
	StartedAt time.Time
	Budget    time.Duration
	Resume    bool
	PollOnly  bool
	// Leave makes the child close the watchdog right after the attach.
	Leave bool
	// CompleteAt is when the child completes the run; zero is never.
	CompleteAt time.Time `json:",omitzero"`
}

// A line is what a child prints: first that its database is open, then that it is attached, then how the run ended.
type line struct {
	Open bool `json:",omitempty"`
	// AttachedTo is the start of the window.
	AttachedTo time.Time `json:",omitzero"`
	// Stop is the stop, Text its error text; Complete is the other end.
	Stop     *watchdog.Stop `json:",omitempty"`
	Text     string         `json:",omitempty"`
	Complete bool           `json:",omitempty"`
}

// A closingStore is a store that is to be closed.
type closingStore interface {
	watchdog.EventStore
	io.Closer
}

// openStore opens a database: that of a connection string or of a file.
func openStore(database string) (closingStore, error) {
	if strings.HasPrefix(database, "postgres:") {
		return postgres.Open(context.Background(), database, postgres.Config{})
	}
	return sqlite.Open(context.Background(), database)
}

// watchRuns is the child's main: it watches one run after another until its input ends.
func watchRuns(database string, in io.Reader, out io.Writer) error {
	store, err := openStore(database)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	if err := lines.Encode(line{Open: true}); err != nil {
		return err
	}
	for jobs := json.NewDecoder(in); ; {
		var j job
		if err := jobs.Decode(&j); errors.Is(err, io.EOF) {
			return store.Close()
		} else if err != nil {
			return err
		}
		if err := j.watch(store, lines); err != nil {
			return err
		}
	}
}

// watch attaches to the run, waits for its end unless j.Leave is set, and prints how the run ended.
func (j job) watch(store watchdog.EventStore, lines *json.Encoder) error {
	wd, err := j.guard(store)
	if errors.Is(err, watchdog.ErrComplete) { // another child was faster
		return errors.Join(lines.Encode(line{AttachedTo: j.StartedAt}), lines.Encode(line{Complete: true}))
	}
	if err != nil {
		return err
	}
	if err := lines.Encode(line{AttachedTo: wd.StartedAt()}); err != nil {
		return err
	}
	switch {
	case j.Leave:
		return wd.Close()
	case !j.CompleteAt.IsZero():
		time.Sleep(time.Until(j.CompleteAt))
		if err := wd.Complete(); err != nil && !errors.Is(err, watchdog.ErrEnded) {
			return err
		}
	case j.PollOnly:
		poll(wd)
	}
	<-wd.Context().Done()
	ended := line{Stop: wd.Stop(), Complete: errors.Is(context.Cause(wd.Context()), watchdog.ErrComplete)}
	if ended.Stop != nil {
		ended.Text = ended.Stop.Error()
	}
	return errors.Join(wd.Close(), lines.Encode(ended))
}

func (j job) guard(store watchdog.EventStore) (*watchdog.Watchdog, error) {
	guard := watchdog.New
	if j.Resume {
		guard = watchdog.Resume
	}
	return guard(context.Background(), watchdog.Run{ID: j.ID, StartedAt: j.StartedAt}, watchdog.Config{
		Store:    store,
		Budget:   watchdog.Budget{WallClock: j.Budget, WarnAt: []float64{0.5}},
		PollOnly: j.PollOnly,
		Logger:   slog.New(slog.DiscardHandler),
	})
}

// poll calls Fired every millisecond until the run has ended, as a host does at its phase boundaries.
func poll(wd *watchdog.Watchdog) {
	phases := time.NewTicker(time.Millisecond)
	defer phases.Stop()
	for wd.Context().Err() == nil {
		wd.Fired()
		<-phases.C
	}
}

// A process is a child of the test.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	jobs   *json.Encoder
	input  io.Closer
	lines  *json.Decoder
	stderr bytes.Buffer
}

// start starts a child that watches runs.
func start(t *testing.T, database string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), self)}
	// Without GORACE each child would exit a second late.
	p.cmd.Env = append(os.Environ(), asChild+"="+database, "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	p.jobs, p.input, p.lines = json.NewEncoder(in), in, json.NewDecoder(out)
	return p
}

// next reads the child's next line. It returns false if the child ended first.
func (p *process) next() (said line, ok bool) {
	return said, p.lines.Decode(&said) == nil
}

// must is next for a child that nothing kills.
func (p *process) must() line {
	p.t.Helper()
	said, ok := p.next()
	if !ok {
		p.cmd.Wait()
		require.FailNow(p.t, "the child ended early", p.stderr.String())
	}
	return said
}

// wait waits for the child and reports whether it was killed. It fails the test if the child failed.
func (p *process) wait() (killed bool) {
	p.t.Helper()
	err := p.cmd.Wait()
	if p.cmd.ProcessState.Exited() {
		require.NoErrorf(p.t, err, "the child printed\n%s", &p.stderr)
	}
	return !p.cmd.ProcessState.Exited()
}

// asChild makes this test binary a process that watches runs. Its value is the path or connection string of the
// database.
const asChild = "CRASHTEST_DATABASE"

func TestMain(m *testing.M) {
	if database := os.Getenv(asChild); database != "" {
		if err := watchRuns(database, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if racing.Enabled {
		fmt.Println("skipped with the race detector: the tests check what killed processes leave in a database")
		return
	}
	_ = flag.Set("test.parallel", "6") // they wait for budgets half of the time
	goleak.VerifyTestMain(m)
}
