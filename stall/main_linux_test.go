package stall_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/stall"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func TestMain(m *testing.M) {
	escape.Main()
	if len(os.Args) > 1 && os.Args[1] == actor {
		act(os.Args[2:])
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // or all that is executed again ends a second late
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // they wait for other processes, most of the time
	goleak.VerifyTestMain(m)
}

// ready is a line that a command prints when it has made its preparations.
const ready = "ready"

// patient is a limit that no test waits for; late is how much later than it should be something may be on a machine that is busy.
const (
	patient = 5 * time.Minute
	late    = 5 * time.Second
)

// tokenVariable is in the environment of all that a test starts.
const tokenVariable = "STALL_TEST_TOKEN"

// play is this program executed again, to do the steps. The test fails if anything of it is alive at its end.
func play(tb testing.TB, steps ...string) *exec.Cmd {
	tb.Helper()
	cmd := exec.Command(self(tb), append([]string{actor}, steps...)...)
	token := tokenVariable + "=" + strconv.FormatUint(rand.Uint64(), 36)
	cmd.Env = append(os.Environ(), token)
	tb.Cleanup(func() { nothingLeft(tb, token) })
	return cmd
}

func self(tb testing.TB) string {
	tb.Helper()
	path, err := os.Executable()
	require.NoError(tb, err)
	return path
}

func nothingLeft(tb testing.TB, token string) {
	tb.Helper()
	for _, pid := range holding(token) {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		assert.Fail(tb, "a process is left", "%d: %s", pid, bytes.ReplaceAll(args, []byte{0}, []byte{' '}))
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// holding are the living processes that have the token in their environment.
func holding(token string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		if text, _ := os.ReadFile(name); bytes.Contains(text, []byte(token)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func tokenOf(cmd *exec.Cmd) string { return cmd.Env[len(cmd.Env)-1] }

var quiet = slog.New(slog.DiscardHandler)

// A bed is where a test runs a command.
type bed struct {
	testing.TB
	store *watchdog.Memory
	cfg   stall.Config
}

// newBed has a config with a store and artifacts and without a signal.
func newBed(tb testing.TB) *bed {
	tb.Helper()
	store := &watchdog.Memory{}
	return &bed{tb, store, stall.Config{Step: "step", RunID: "run", Store: store, Artifacts: filepath.Join(tb.TempDir(), "state"), Logger: quiet}}
}

func (b *bed) run(cmd *exec.Cmd) (*stall.Result, error) {
	b.Helper()
	result, err := stall.Run(b.Context(), cmd, b.cfg)
	require.NotNil(b, result, "%v", err)
	require.Empty(b, result.Survivors)
	return result, err
}

// stalled runs a command that is ended because it is stuck.
func (b *bed) stalled(cmd *exec.Cmd) (*stall.Result, *stall.Stalled) {
	b.Helper()
	result, err := b.run(cmd)
	var stalled *stall.Stalled
	require.ErrorAs(b, err, &stalled)
	require.Equal(b, stalled.Trip, *result.Trip)
	require.False(b, result.Finished)
	return result, stalled
}

// A payload is what an event says.
type payload struct {
	Reason, Parent string
}

func (b *bed) events(kind string) []payload {
	b.Helper()
	events, err := b.store.Read(context.Background(), watchdog.AggregateType, "run/step")
	require.NoError(b, err)
	var all []payload
	for _, e := range events {
		if e.Type == kind {
			var p payload
			require.NoError(b, json.Unmarshal(e.Payload, &p))
			all = append(all, p)
		}
	}
	return all
}

// A record is event.json, as far as tests look at it.
type record struct {
	Trigger struct{ Kind, Reason string }
	Action  struct {
		Kind       string
		Requested  []string
		Sent       []struct{ Signal string }
		Terminated bool
		EndedBy    string `json:"ended_by"`
		ExitCode   *int   `json:"exit_code"`
	}
	Fingerprints, Reasons []string
	EventID               string `json:"event_id"`
	Pointers              map[string]string
	Complete              bool
}

func (b *bed) record() (r record) {
	b.Helper()
	require.NoError(b, json.Unmarshal([]byte(b.artifact("event.json")), &r))
	return r
}

func (b *bed) artifact(name string) string {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.cfg.Artifacts, b.cfg.Step, "_stall", name))
	require.NoError(b, err)
	return string(text)
}

// artifacts are the names of all files under the root.
func (b *bed) artifacts() []string {
	b.Helper()
	names := []string{}
	_ = filepath.WalkDir(b.cfg.Artifacts, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, filepath.Base(path))
		}
		return nil
	})
	return names
}

// signals are those that were sent, in order.
func signals(r *stall.Result) (all []syscall.Signal) {
	for _, sent := range r.Sent {
		all = append(all, sent.Signal)
	}
	return all
}

func within(tb testing.TB, most time.Duration, began time.Time) {
	tb.Helper()
	require.Less(tb, time.Since(began), most)
}

// eventually waits for something that another process does.
func eventually(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	require.Eventually(tb, done, 20*time.Second, time.Millisecond, what)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

func golden(tb testing.TB, name, got string) {
	tb.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(tb, os.MkdirAll("testdata", 0o755))
		require.NoError(tb, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(tb, err)
	require.Equal(tb, string(want), got, "run the test with -update to write %s", path)
}

func words(text string) []string { return strings.Fields(text) }
