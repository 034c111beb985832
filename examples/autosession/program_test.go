package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
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
)

// patience is how long a test waits for what takes no time on a machine that is not busy.
const patience = time.Minute

// A bed is a state directory and a way to run the program on it, with a go command that takes no time.
type bed struct {
	t     *testing.T
	state string
	diary string // what the go commands were
	env   []string
}

func newBed(t *testing.T) *bed {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	bin, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(bin, "go")))
	b := &bed{t: t, state: filepath.Join(dir, "it's a state"), diary: filepath.Join(dir, "diary")}
	b.env = []string{asProgram + "=1", quickExit, goDiary + "=" + b.diary, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}
	return b
}

// withRealGo makes the bed use the go command there is.
func (b *bed) withRealGo() *bed {
	b.env = append(b.env, "PATH="+os.Getenv("PATH"))
	return b
}

// command is the program with its flags.
func (b *bed) command(flags ...string) *exec.Cmd {
	b.t.Helper()
	self, err := os.Executable()
	require.NoError(b.t, err)
	cmd := exec.CommandContext(b.t.Context(), self, append([]string{"-state", b.state}, flags...)...)
	cmd.Env = append(os.Environ(), b.env...)
	return cmd
}

// An outcome is what a run of the program came to.
type outcome struct {
	code           int
	stdout, stderr string
}

// run runs the program to its end.
func (b *bed) run(flags ...string) outcome {
	b.t.Helper()
	return finish(b.t, b.command(flags...))
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

// A live program is one that is running.
type live struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Reader
}

// start starts the program and reads what it prints up to a line that has the text.
func (b *bed) start(until string, flags ...string) *live {
	b.t.Helper()
	return b.follow(b.command(flags...), until)
}

func (b *bed) follow(cmd *exec.Cmd, until string) *live {
	b.t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(b.t, err)
	require.NoError(b.t, cmd.Start())
	p := &live{b.t, cmd, bufio.NewReader(out)}
	p.read(until)
	return p
}

func (p *live) read(until string) {
	p.t.Helper()
	var seen strings.Builder
	for {
		line, err := p.lines.ReadString('\n')
		seen.WriteString(line)
		if strings.Contains(line, until) {
			return
		}
		require.NoErrorf(p.t, err, "waiting for %q, it printed\n%s", until, &seen)
	}
}

// signal sends a signal and returns what the program came to.
func (p *live) signal(s syscall.Signal) outcome {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
	return p.end()
}

func (p *live) end() outcome {
	p.t.Helper()
	rest, err := io.ReadAll(p.lines)
	require.NoError(p.t, err)
	p.cmd.Wait() // its error is in the status
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

// session is the session that ran last.
func (b *bed) session() sessionFile {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.state, "session.json"))
	require.NoError(b.t, err)
	var s sessionFile
	require.NoError(b.t, json.Unmarshal(text, &s), "session.json: %s", text)
	return s
}

// An event is a line of -events as another program reads it.
type event struct {
	ID      string         `json:"id"`
	Type    string         `json:"event_type"`
	Payload map[string]any `json:"payload"`
}

// events are those of a session, of the last one without an ID.
func (b *bed) events(flags ...string) []event {
	b.t.Helper()
	printed := b.run(append([]string{"-events"}, flags...)...).must(b.t, 0)
	var events []event
	for line := range strings.Lines(printed.stdout) {
		var e event
		require.NoError(b.t, json.Unmarshal([]byte(line), &e), "a line of -events: %s", line)
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

// turns are the kinds of a session's events that turn it, so all but its warnings.
func (b *bed) turns() []string {
	b.t.Helper()
	return slices.DeleteFunc(kinds(b.events()), func(kind string) bool { return kind == "warning" })
}

// backdate makes the last session's window begin earlier, as if time had gone by.
func (b *bed) backdate(d time.Duration) {
	b.t.Helper()
	path, err := filepath.EvalSymlinks(filepath.Join(b.state, "session.json"))
	require.NoError(b.t, err)
	text, err := os.ReadFile(path)
	require.NoError(b.t, err)
	const layout = "2006-01-02T15:04:05"
	startedAt := b.session().StartedAt
	old := strings.ReplaceAll(string(text), startedAt.Format(layout), startedAt.Add(-d).Format(layout))
	require.NotEqual(b.t, string(text), old)
	require.NoError(b.t, os.WriteFile(path, []byte(old), 0o600))
}

// log is what the command of a phase printed in the last session.
func (b *bed) log(phase string) string {
	b.t.Helper()
	text, err := os.ReadFile(b.logPath(phase))
	require.NoError(b.t, err)
	return string(text)
}

func (b *bed) logPath(phase string) string {
	return filepath.Join(b.state, "sessions", b.session().ID, phase+".log")
}

// hung is the process that hangs in the place of a phase. It waits for it.
func (b *bed) hung(phase string) (pid int) {
	b.t.Helper()
	path := b.logPath(phase)
	require.Eventually(b.t, func() bool {
		text, _ := os.ReadFile(path) // it may not be there yet
		n, _ := fmt.Sscanf(string(text), "process %d hangs", &pid)
		return n == 1
	}, patience, 10*time.Millisecond)
	return pid
}

// commands are the go commands that were run.
func (b *bed) commands() []string {
	b.t.Helper()
	text, err := os.ReadFile(b.diary)
	require.NoError(b.t, err)
	return strings.Fields(string(text))
}

// result is the one object that -json printed.
func (o outcome) result(t *testing.T) map[string]any {
	t.Helper()
	var r map[string]any
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &r), "standard output: %s", o.stdout)
	return r
}
