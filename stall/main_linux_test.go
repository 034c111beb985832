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
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/stall"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func TestMain(m *testing.M) {
	escape.Main()
	if len(os.Args) > 1 && os.Args[1] == childArg {
		runChild(os.Args[2:])
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise every child process ends a second late
	flag.Parse()
	atOnce := "32" // most of the time the tests wait for other processes
	if racing.Enabled {
		atOnce = "8"
	}
	_ = flag.Set("test.parallel", atOnce)
	goleak.VerifyTestMain(m)
}

// ready is the line that a command prints when it is set up.
const ready = "ready"

// longTime is a limit that no test waits for. On a busy machine something may happen slack later than it should.
const (
	longTime = 5 * time.Minute
	slack    = 30 * time.Second
)

// tokenVariable is in the environment of every process that a test starts.
const tokenVariable = "STALL_TEST_TOKEN"

// command returns this program as a child process that does the steps. The test fails if any process of it is alive at
// the end.
func command(tb testing.TB, steps ...string) *exec.Cmd {
	tb.Helper()
	line := childCommand(tb, steps...)
	cmd := exec.Command(line[0], line[1:]...)
	token := tokenVariable + "=" + strconv.FormatUint(rand.Uint64(), 36)
	cmd.Env = append(os.Environ(), token)
	tb.Cleanup(func() { checkNothingLeft(tb, token) })
	return cmd
}

// childCommand returns the program and arguments of such a child process.
func childCommand(tb testing.TB, steps ...string) []string {
	tb.Helper()
	path, err := os.Executable()
	require.NoError(tb, err)
	return append([]string{path, childArg}, steps...)
}

func checkNothingLeft(tb testing.TB, token string) {
	tb.Helper()
	for _, pid := range processesWith(token) {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if guard := string(args) == "wdguard\x00"; len(args) == 0 || guard && endsSoon(pid) {
			continue // it ends, or is that of a host that has just exited
		}
		assert.Fail(tb, "a process is left", "%d: %s", pid, bytes.ReplaceAll(args, []byte{0}, []byte{' '}))
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// endsSoon reports whether a process ends within the slack.
func endsSoon(pid int) bool {
	for until := time.Now().Add(slack); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); len(text) == 0 {
			return true
		}
	}
	return false
}

// processesWith returns the living processes that have the token in their environment.
func processesWith(token string) (pids []int) {
	all, _ := os.ReadDir("/proc")
	for _, process := range all {
		pid, err := strconv.Atoi(process.Name())
		if err != nil {
			continue
		}
		if text, _ := os.ReadFile("/proc/" + process.Name() + "/environ"); bytes.Contains(text, []byte(token)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// commandLineHas reports whether an argument of a process contains the text.
func commandLineHas(pid int, text string) bool {
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return bytes.Contains(args, []byte(text))
}

func tokenOf(cmd *exec.Cmd) string { return cmd.Env[len(cmd.Env)-1] }

var discard = slog.New(slog.DiscardHandler)

// A fixture runs commands with a config.
type fixture struct {
	testing.TB
	store *watchdog.Memory
	cfg   stall.Config
}

// newFixture has a config with a store and artifacts, and without a signal.
func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	store := &watchdog.Memory{}
	return &fixture{tb, store, stall.Config{
		Step: "step", RunID: "run", Store: store, Artifacts: filepath.Join(tb.TempDir(), "state"), Logger: discard,
		RecordTimeout: longTime,
	}}
}

func (f *fixture) run(cmd *exec.Cmd) (*stall.Result, error) {
	f.Helper()
	result, err := stall.Run(f.Context(), cmd, f.cfg)
	require.NotNil(f, result, "%v", err)
	require.Empty(f, result.Survivors)
	return result, err
}

// stalled runs a command that is ended because it is stuck.
func (f *fixture) stalled(cmd *exec.Cmd) (*stall.Result, *stall.Stalled) {
	f.Helper()
	result, err := f.run(cmd)
	var stalled *stall.Stalled
	require.ErrorAs(f, err, &stalled)
	require.Equal(f, stalled.Trip, *result.Trip)
	require.False(f, result.Finished)
	return result, stalled
}

// A payload is the part of an event that tests check.
type payload struct {
	Reason, Parent string
}

func (f *fixture) events(kind string) []payload {
	f.Helper()
	events, err := f.store.Read(context.Background(), watchdog.AggregateType, "run/step")
	require.NoError(f, err)
	var all []payload
	for _, e := range events {
		if e.Type == kind {
			var p payload
			require.NoError(f, json.Unmarshal(e.Payload, &p))
			all = append(all, p)
		}
	}
	return all
}

// A record is the part of event.json that tests check.
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
	Complete, Finished    bool
	AlsoEnd               *struct {
		ExitCode *int `json:"exit_code"`
		Failed   string
	} `json:"also_end"`
}

func (f *fixture) record() (r record) {
	f.Helper()
	require.NoError(f, json.Unmarshal([]byte(f.artifact("event.json")), &r))
	return r
}

func (f *fixture) artifact(name string) string {
	f.Helper()
	text, err := os.ReadFile(filepath.Join(f.cfg.Artifacts, f.cfg.Step, "_stall", name))
	require.NoError(f, err)
	return string(text)
}

// artifacts returns the names of all files under the root.
func (f *fixture) artifacts() []string {
	f.Helper()
	names := []string{}
	_ = filepath.WalkDir(f.cfg.Artifacts, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, filepath.Base(path))
		}
		return nil
	})
	return names
}

// signals returns the signals that were sent, in order.
func signals(r *stall.Result) (all []syscall.Signal) {
	for _, sent := range r.Sent {
		all = append(all, sent.Signal)
	}
	return all
}

// attempts is how often a test tries what has to happen in a short time, which a busy machine can take longer for.
const attempts = 3

func within(tb testing.TB, most time.Duration, began time.Time) {
	tb.Helper()
	require.Less(tb, time.Since(began), most)
}

// eventually waits for another process to do something.
func eventually(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	require.Eventually(tb, done, longTime, 20*time.Millisecond, what)
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

// graces are the steps that are the default, with these times.
func graces(interrupt, terminate time.Duration) []stall.Step {
	return []stall.Step{{Signal: syscall.SIGINT, Grace: interrupt}, {Signal: syscall.SIGTERM, Grace: terminate}}
}
