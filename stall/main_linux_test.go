package stall_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/escape/script"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/stall"
)

func TestMain(m *testing.M) {
	escape.Main()
	if len(os.Args) > 1 && os.Args[1] == childArg {
		childSteps.Do(os.Args[2:])
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
		if len(args) == 0 || isGuard(strconv.Itoa(pid)) && endsSoon(pid) {
			continue // it ends, or is that of a host that has just exited
		}
		require.Fail(tb, "a process is left", "%d: %s", pid, bytes.ReplaceAll(args, []byte{0}, []byte{' '}))
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// isGuard reports whether a process is a guard.
func isGuard(pid string) bool {
	args, _ := os.ReadFile("/proc/" + pid + "/cmdline")
	return string(args) == "wdguard\x00"
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

// inFixture runs a subtest in a fixture of its own, beside others.
func inFixture(t *testing.T, name string, test func(t *testing.T, f *fixture)) {
	t.Helper()
	parallel(t, name, func(t *testing.T) { test(t, newFixture(t)) })
}

// parallel runs a subtest beside others.
func parallel(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

func (f *fixture) run(cmd *exec.Cmd) (*stall.Result, error) {
	f.Helper()
	result, err := stall.Run(f.Context(), cmd, f.cfg)
	require.NotNil(f, result, "%v", err)
	require.Empty(f, result.Survivors)
	return result, err
}

// succeeds runs a command that ends by itself, without an error.
func (f *fixture) succeeds(cmd *exec.Cmd) *stall.Result {
	f.Helper()
	result, err := f.run(cmd)
	require.NoError(f, err)
	return result
}

// newCommand makes a command that is not started.
func newCommand(t *testing.T, cmd *exec.Cmd, cfg stall.Config) *stall.Command {
	t.Helper()
	c, err := stall.NewCommand(cmd, cfg)
	require.NoError(t, err)
	return c
}

// A waiter is a command that was started.
type waiter interface{ Wait() (*stall.Result, error) }

// waited waits for a command that ends without an error.
func waited(t *testing.T, c waiter) *stall.Result {
	t.Helper()
	result, err := c.Wait()
	require.NoError(t, err)
	return result
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

// terminal has a line end the command, which has begun all of its processes then, and stays.
func (f *fixture) terminal(steps ...string) *exec.Cmd {
	f.Helper()
	f.cfg.Terminal = readyLine
	return command(f, append(steps, "print:"+ready, "stay")...)
}

// A payload is the part of an event that tests check.
type payload struct {
	Reason, Parent string
}

func (f *fixture) events(kind string) []payload {
	f.Helper()
	events, err := f.store.Read(context.Background(), event.AggregateType, "run/step")
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

func words(text string) []string { return strings.Fields(text) }

// graces are the steps that are the default, with these times.
func graces(interrupt, terminate time.Duration) []stall.Step {
	return []stall.Step{{Signal: syscall.SIGINT, Grace: interrupt}, {Signal: syscall.SIGTERM, Grace: terminate}}
}

// childArg is the first argument of this program if it is a child of a test. The other arguments are the steps that it
// does, one after the other.
const childArg = "stall-test-child"

// childSteps do what the words say. The steps of a child of the child are separated by semicolons. The map is set in
// init to break an initialization cycle.
var childSteps script.Steps

func init() {
	script.Signals["USR1"], script.Signals["STOP"] = syscall.SIGUSR1, syscall.SIGSTOP
	childSteps = script.Common()
	maps.Copy(childSteps, script.Steps{
		"stoppable":  stoppable,
		"busy":       busy,
		"serve":      serve,
		"talk":       talk,
		"answer":     answer,
		"quiet":      func(string) error { return os.Stdout.Close() },
		"sleep":      func(length string) error { time.Sleep(duration(length)); return nil },
		"every":      every,
		"flood":      flood,
		"unmark":     unmark,
		"copy":       copyOnInterrupt,
		"child":      func(steps string) error { return child(steps, true) },
		"daemon":     func(steps string) error { return child(steps, false) },
		"heir":       heir,
		"count":      count,
		"env":        func(name string) error { return childSteps["print"](os.Getenv(name)) },
		"lines":      awaitLines,
		"host":       host,
		"idle":       idleRuns,
		"stuck":      stuck,
		"restricted": restricted,
		"unkillable": unkillable,
		"bare":       bare,
		"feed":       feed,
		"terminal":   hostOnTerminal,
		"limited":    limited,
		"sendfile":   sendfile,
		"splice":     splice,
		"copyfile":   copyFile,
		"paused":     paused,
		"work":       work,
		"spin":       spin,
		"pwd":        func(string) error { dir, _ := os.Getwd(); return childSteps["print"](dir) },
	})
}

func duration(text string) time.Duration { d, _ := time.ParseDuration(text); return d }

// every:10ms:TEXT prints forever, every:10ms:TEXT:20 twenty times.
func every(argument string) error {
	parts := append(strings.Split(argument, ":"), "")
	for n := 0; parts[2] == "" || n < script.Number(parts[2]); n++ {
		if _, err := fmt.Println(parts[1]); err != nil {
			return err
		}
		time.Sleep(duration(parts[0]))
	}
	return nil
}

// flood:BYTES writes zeros, without a newline.
func flood(argument string) error {
	block := make([]byte, 1<<20)
	for left := script.Number(argument); left > 0; left -= len(block) {
		if _, err := os.Stdout.Write(block[:min(left, len(block))]); err != nil {
			return err
		}
	}
	return nil
}

// unmark changes the limit by which its guard tells whose this process is.
func unmark(string) error {
	const locks = 10
	var limit syscall.Rlimit
	err := syscall.Getrlimit(locks, &limit)
	limit.Cur = limit.Max
	return errors.Join(err, syscall.Setrlimit(locks, &limit))
}

// serve:FILE starts a server in a session of its own that has the outputs of this process.
func serve(path string) error {
	cmd := exec.Command(os.Args[0], childArg, "talk:"+path)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return script.Await(path)
}

// talk:FILE prints a kilobyte to both outputs forever, and appends a line to a file each time.
func talk(path string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	text := strings.Repeat("x", 1023)
	for ; err == nil; time.Sleep(time.Millisecond) {
		_, err = fmt.Println(text)
		_, failed := fmt.Fprintln(os.Stderr, text)
		_, late := file.WriteString("talked\n")
		err = errors.Join(err, failed, late)
	}
	return err
}

// answer answers each line of its input until the input ends.
func answer(string) error {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if _, err := fmt.Println("you said", in.Text()); err != nil {
			return err
		}
	}
	return in.Err()
}

// heir:STEPS starts this program again, in a session of its own and with all three files of this process.
func heir(steps string) error {
	cmd := exec.Command(os.Args[0], append([]string{childArg}, strings.Split(steps, ";")...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// copy:FROM:TO copies a file at the first SIGINT and exits.
func copyOnInterrupt(argument string) error {
	from, to, _ := strings.Cut(argument, ":")
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGINT)
	go func() {
		<-got
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			os.Exit(95)
		}
		os.Exit(0)
	}()
	return nil
}

// child starts this program again, in a session of its own unless here is set, and waits until it has printed a line.
func child(steps string, here bool) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0], append([]string{childArg}, strings.Split(steps, ";")...)...)
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: !here}
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = w.Close()
	_, err = bufio.NewReader(r).ReadString('\n')
	return err
}

// count:FILE:A,B,C prints one of the words at each run, one after the other, and then always the last.
func count(argument string) error {
	path, list, _ := strings.Cut(argument, ":")
	text, _ := os.ReadFile(path)
	all := strings.Split(list, ",")
	turn := min(bytes.Count(text, []byte("\n")), len(all)-1)
	if err := os.WriteFile(path, append(text, '\n'), 0o600); err != nil {
		return err
	}
	word := all[turn]
	switch {
	case word == "fail":
		os.Exit(3)
	case word == "hang":
		time.Sleep(time.Hour)
	case word == "text":
		word = "all is well"
	case strings.HasPrefix(word, "="): // a class
		word = `{"class": "` + word[1:] + `"}`
	default:
		word = `{"state": {"at": "` + word + `"}}`
	}
	return childSteps["print"](word)
}

// floodSize is more than what pipes hold.
const floodSize = "8388608"

// lines:FILE:N waits until a file has N lines.
func awaitLines(argument string) error {
	path, lines, _ := strings.Cut(argument, ":")
	for {
		if text, _ := os.ReadFile(path); bytes.Count(text, []byte("\n")) >= script.Number(lines) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}
