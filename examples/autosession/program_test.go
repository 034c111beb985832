package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	autosession "github.com/seed62658d38/watchdog/examples/autosession"
)

// Environment variables that make this test binary another program.
const (
	// asProgram makes it autosession.
	asProgram = "AUTOSESSION_TEST_PROGRAM"
	// goFails names the go command that fails, goCallLog the file that lists the go commands.
	goFails   = "AUTOSESSION_TEST_GO_FAILS"
	goCallLog = "AUTOSESSION_TEST_GO_DIARY"
)

// patience bounds every wait in these tests; an idle machine needs milliseconds.
const patience = time.Minute

// quickExit makes the race detector exit at once instead of after a second.
const quickExit = "GORACE=atexit_sleep_ms=0"

// canary is printed by commands: it must be in logs and nowhere else.
const canary = "canary-4f1c"

func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == "go":
		os.Exit(fakeGo(os.Args[1]))
	case os.Getenv(asProgram) != "":
		autosession.Main()
	default:
		_ = flag.Set("test.parallel", "8") // most wait for limits and graces
		goleak.VerifyTestMain(m)
	}
}

// fakeGo replaces the go command in tests that do not need the real one.
func fakeGo(command string) int {
	callLog, err := os.OpenFile(os.Getenv(goCallLog), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Fprintln(callLog, command)
	fmt.Println(command, canary)
	if os.Getenv(goFails) == command {
		fmt.Println("undefined: everything")
		return 1
	}
	return 0
}

// A fixture runs the program on a state directory, with a go command that takes no time.
type fixture struct {
	t       *testing.T
	state   string
	callLog string // the list of go commands
	env     []string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	bin, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(bin, "go")))
	f := &fixture{t: t, state: filepath.Join(dir, "it's a state"), callLog: filepath.Join(dir, "go-calls")}
	path := "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")
	f.env = []string{asProgram + "=1", quickExit, goCallLog + "=" + f.callLog, path}
	return f
}

// parallel runs a test beside others, on a state directory of its own.
func parallel(t *testing.T, name string, test func(t *testing.T, f *fixture)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t, newFixture(t))
	})
}

// withRealGo uses the real go command.
func (f *fixture) withRealGo() *fixture {
	f.env = append(f.env, "PATH="+os.Getenv("PATH"))
	return f
}

// command returns the program with its flags.
func (f *fixture) command(flags ...string) *exec.Cmd {
	f.t.Helper()
	self, err := os.Executable()
	require.NoError(f.t, err)
	cmd := exec.CommandContext(f.t.Context(), self, append([]string{"-state", f.state}, flags...)...)
	cmd.Env = append(os.Environ(), f.env...)
	return cmd
}

// An outcome is the exit status and the output of a run.
type outcome struct {
	code           int
	stdout, stderr string
}

// run runs the program to its end.
func (f *fixture) run(flags ...string) outcome {
	f.t.Helper()
	return finish(f.t, f.command(flags...))
}

func finish(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// must fails the test unless the program ended with the status.
func (o outcome) must(t *testing.T, code int) outcome {
	t.Helper()
	require.Equalf(t, code, o.code, "exit status; it printed\n%s\n%s", o.stdout, o.stderr)
	return o
}

// A live program is running.
type live struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Reader
}

// start starts the program and reads its output up to a line that contains the text.
func (f *fixture) start(until string, flags ...string) *live {
	f.t.Helper()
	return f.follow(f.command(flags...), until)
}

func (f *fixture) follow(cmd *exec.Cmd, until string) *live {
	f.t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, cmd.Start())
	p := &live{f.t, cmd, bufio.NewReader(out)}
	for seen := ""; !strings.Contains(seen, until); {
		line, err := p.lines.ReadString('\n')
		seen += line
		require.NoErrorf(f.t, err, "waiting for %q, it printed\n%s", until, seen)
	}
	return p
}

// signal sends a signal and returns the outcome.
func (p *live) signal(s syscall.Signal) outcome {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
	rest, err := io.ReadAll(p.lines)
	require.NoError(p.t, err)
	p.cmd.Wait() // the status is returned
	return outcome{code: p.cmd.ProcessState.ExitCode(), stdout: string(rest)}
}

// A sessionFile is session.json as another program reads it.
type sessionFile struct {
	ID             string         `json:"id"`
	StartedAt      time.Time      `json:"session_started_at"`
	Status         string         `json:"status"`
	Phase          string         `json:"phase"`
	Completed      []string       `json:"completed_phases"`
	StopReason     string         `json:"stop_reason_code"`
	Budget         map[string]any `json:"budget"`
	ElapsedSeconds int            `json:"elapsed_seconds"`
}

// session returns the last session.
func (f *fixture) session() sessionFile {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.state, "session.json"))
	require.NoError(f.t, err)
	var s sessionFile
	require.NoError(f.t, json.Unmarshal(text, &s), "session.json: %s", text)
	return s
}

// An event is a line of -events as another program reads it.
type event struct {
	ID      string         `json:"id"`
	Type    string         `json:"event_type"`
	Payload map[string]any `json:"payload"`
}

// events returns the events of a session, without an ID of the last one.
func (f *fixture) events(flags ...string) []event {
	f.t.Helper()
	printed := f.run(append([]string{"-events"}, flags...)...).must(f.t, 0)
	var events []event
	for line := range strings.Lines(printed.stdout) {
		var e event
		require.NoError(f.t, json.Unmarshal([]byte(line), &e), "a line of -events: %s", line)
		events = append(events, e)
	}
	return events
}

func kinds(events []event) []string {
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, strings.TrimPrefix(e.Type, "runtime.watchdog."))
	}
	return kinds
}

// controlEvents returns the kinds of the session's events without its warnings.
func (f *fixture) controlEvents() []string {
	f.t.Helper()
	return slices.DeleteFunc(kinds(f.events()), func(kind string) bool { return kind == "warning" })
}

// backdate moves the start of the last session's window into the past.
func (f *fixture) backdate(d time.Duration) {
	f.t.Helper()
	path, err := filepath.EvalSymlinks(filepath.Join(f.state, "session.json"))
	require.NoError(f.t, err)
	text, err := os.ReadFile(path)
	require.NoError(f.t, err)
	const layout = "2006-01-02T15:04:05"
	startedAt := f.session().StartedAt
	old := strings.ReplaceAll(string(text), startedAt.Format(layout), startedAt.Add(-d).Format(layout))
	require.NotEqual(f.t, string(text), old)
	require.NoError(f.t, os.WriteFile(path, []byte(old), 0o600))
}

// log returns the output of a phase's command in the last session.
func (f *fixture) log(phase string) string {
	f.t.Helper()
	text, err := os.ReadFile(f.logPath(phase))
	require.NoError(f.t, err)
	return string(text)
}

func (f *fixture) logPath(phase string) string {
	return filepath.Join(f.state, "sessions", f.session().ID, phase+".log")
}

// hung waits for the process that hangs in place of a phase and returns its ID.
func (f *fixture) hung(phase string) (pid int) {
	f.t.Helper()
	path := f.logPath(phase)
	require.Eventually(f.t, func() bool {
		text, _ := os.ReadFile(path) // it may not be there yet
		n, _ := fmt.Sscanf(string(text), "process %d hangs", &pid)
		return n == 1
	}, patience, 10*time.Millisecond)
	return pid
}

// commands returns the go commands that ran.
func (f *fixture) commands() []string {
	f.t.Helper()
	text, err := os.ReadFile(f.callLog)
	require.NoError(f.t, err)
	return strings.Fields(string(text))
}

// result parses the one object that -json printed.
func (o outcome) result(t *testing.T) map[string]any {
	t.Helper()
	var r map[string]any
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &r), "standard output: %s", o.stdout)
	return r
}

// assertGone waits until a process that is not a child of this one has ended.
func assertGone(t *testing.T, pid int) {
	t.Helper()
	process, err := os.FindProcess(pid)
	require.NoError(t, err)
	require.Eventuallyf(t, func() bool { return process.Signal(syscall.Signal(0)) != nil }, patience, 10*time.Millisecond,
		"process %d is alive", pid)
}
