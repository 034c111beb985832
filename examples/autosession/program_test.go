package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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

func TestKilled(t *testing.T) {
	t.Parallel()
	parallel(t, "a session that was killed in a phase goes on with that phase in the same window", func(t *testing.T, f *fixture) {
		p := f.start("build  2 of 4", "-budget", "1h", "-hang", "build")
		hung := f.hung("build")
		p.signal(syscall.SIGKILL)
		left := f.session()
		require.Equal(t, "running", left.Status)
		require.Equal(t, []string{"plan"}, left.Completed)
		assertGone(t, hung)

		on := f.run("-session", left.ID).must(t, 0)
		require.Regexp(t, `session_wall_clock_seconds +1h0m0s +session`, on.stdout, "it keeps its budget")
		after := f.session()
		require.Equal(t, left.StartedAt, after.StartedAt)
		require.Equal(t, []string{"list", "build", "vet", "test"}, f.commands())
		require.Equal(t, []string{"complete"}, kinds(f.events()))
	})
	parallel(t, "the time until the next attach counts", func(t *testing.T, f *fixture) {
		f.start("plan   1 of 4", "-budget", "30m", "-hang", "plan").signal(syscall.SIGKILL)
		f.backdate(time.Hour)
		f.run("-session", f.session().ID).must(t, 3)
		require.Equal(t, []string{"cancel"}, f.controlEvents())
		require.GreaterOrEqual(t, f.session().ElapsedSeconds, 3600)
	})
	t.Run("a session killed at any moment can be attached again and finishes", killedAtAnyMoment)
}

// killedAtAnyMoment kills sessions at random moments until each one completes.
func killedAtAnyMoment(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f, kills, sessions := newFixture(t), 0, 0
	for ; kills < 60; sessions++ {
		f.start("plan   1 of 4").signal(syscall.SIGKILL)
		first := f.session()
		kills += 1 + f.killUntilComplete(first.ID, random)
		last := f.session()
		require.Equal(t, first.ID, last.ID)
		require.Equal(t, []string{"plan", "build", "vet", "test"}, last.Completed)
		require.Equal(t, first.StartedAt, last.StartedAt)
		require.Equal(t, []string{"complete"}, kinds(f.events()), "once, however often it was killed")
	}
	t.Logf("%d sessions were killed %d times", sessions, kills)
}

// killUntilComplete attaches to the session and kills the program again and again, until a run finishes before the
// kill. It returns the number of kills.
func (f *fixture) killUntilComplete(id string, random *rand.Rand) (kills int) {
	f.t.Helper()
	for longest := 50 * time.Millisecond; ; longest += 10 * time.Millisecond {
		cmd := f.command("-session", id)
		require.NoError(f.t, cmd.Start())
		kill := time.AfterFunc(time.Duration(random.Int64N(int64(longest))), func() { cmd.Process.Kill() })
		cmd.Wait() // the status is checked below
		if kill.Stop(); cmd.ProcessState.Exited() {
			require.Zero(f.t, cmd.ProcessState.ExitCode())
			return kills
		}
		kills++
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	for signal, name := range map[syscall.Signal]string{
		syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP",
	} {
		parallel(t, name+" ends the session, which can be attached again", func(t *testing.T, f *fixture) {
			p := f.start("build  2 of 4", "-hang", "build")
			hung := f.hung("build")
			ended := p.signal(signal).must(t, 1)
			require.Contains(t, ended.stdout, "INTERRUPTED by "+name+" in phase build")
			assertGone(t, hung)

			left := f.session()
			require.Equal(t, "interrupted", left.Status)
			require.Empty(t, left.StopReason)
			events := f.events()
			require.Equal(t, []string{"interrupt"}, kinds(events))
			require.Equal(t, name, events[0].Payload["signal"])

			finish(t, f.shell(printed(t, ended.stdout, "to go on:"))).must(t, 0)
			require.Equal(t, left.StartedAt, f.session().StartedAt)
			require.Equal(t, []string{"list", "build", "vet", "test"}, f.commands())
		})
	}
}

func TestNoHup(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cmd := f.command("-hang", "plan")
	shell := f.shell(`trap "" HUP; exec "$@"`)
	shell.Args = append(shell.Args, append([]string{"sh"}, cmd.Args...)...)
	p := f.follow(shell, "plan   1 of 4")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	ended := p.signal(syscall.SIGTERM).must(t, 1)
	require.Contains(t, ended.stdout, "INTERRUPTED by SIGTERM", "a signal ignored at the start stays ignored")
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.start("plan   1 of 4", "-hang", "plan")
	id := f.session().ID

	t.Run("a second process on one session fails and names the first", func(t *testing.T) {
		refused := f.run("-session", id).must(t, 1)
		require.Contains(t, refused.stderr, "is being run by process")
		require.Contains(t, refused.stderr, strconv.Itoa(p.cmd.Process.Pid))
	})
	t.Run("-events works while the session runs", func(t *testing.T) {
		require.Empty(t, f.events("-session", id))
	})
	t.Run("another session runs beside it", func(t *testing.T) {
		f.run().must(t, 0)
	})
	t.Run("killing the process frees the session", func(t *testing.T) {
		p.signal(syscall.SIGKILL)
		f.run("-session", id).must(t, 0)
	})
}

func TestFailed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	healthy := f.env
	f.env = append(f.env, goFails+"=vet")
	failed := f.run().must(t, 1)

	t.Run("a failing phase ends the session and shows its command's output", func(t *testing.T) {
		require.Contains(t, failed.stdout, "FAILED in phase vet: go vet ./...: exit status 1")
		require.Contains(t, failed.stdout, "undefined: everything")
		require.Equal(t, "failed", f.session().Status)
		require.Equal(t, "vet", f.session().Phase)
	})
	t.Run("the output is in the log and nowhere else", func(t *testing.T) {
		logs := 0
		for path, text := range filesIn(t, f.state) {
			if filepath.Ext(path) == ".log" {
				logs++
				continue
			}
			require.NotContains(t, text, canary, path)
		}
		require.Equal(t, 3, logs)
	})
	t.Run("attaching tries the phase again", func(t *testing.T) {
		f.env = healthy
		finish(t, f.shell(printed(t, failed.stdout, "to go on:"))).must(t, 0)
		require.Equal(t, []string{"list", "build", "vet", "vet", "test"}, f.commands())
	})
	t.Run("a project that does not build fails in the real build", func(t *testing.T) {
		genuine, project := newFixture(t).withRealGo(), t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(project, "go.mod"), []byte("module broken\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(project, "a.go"), []byte("package broken\n\nvar A = B\n"), 0o600))
		require.Contains(t, genuine.run("-project", project).must(t, 1).stdout, "undefined: B")
		require.Equal(t, "build", genuine.session().Phase)
	})
	t.Run("a missing go command is named in the error", func(t *testing.T) {
		lost := newFixture(t)
		lost.env = append(lost.env, "PATH=")
		require.Contains(t, lost.run().must(t, 1).stdout, `FAILED in phase plan: go list ./...: exec: "go"`)
	})
}

// filesIn returns the contents of all files under root by path.
func filesIn(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	}))
	return files
}

func TestRefused(t *testing.T) {
	t.Parallel()
	parallel(t, "a missing session", func(t *testing.T, f *fixture) {
		for _, flags := range [][]string{{"-resume"}, {"-events"}, {"-session", "none"}, {"-session", "none", "-events"}} {
			require.Contains(t, f.run(flags...).must(t, 1).stderr, "no such session")
		}
		require.NoDirExists(t, f.state, "nothing was created")
		f.run().must(t, 0)
		require.Contains(t, f.run("-session", "none").must(t, 1).stderr, f.session().ID, "it names the existing sessions")
	})
	parallel(t, "a damaged session file", func(t *testing.T, f *fixture) {
		f.run().must(t, 0)
		id := f.session().ID
		f.overwrite(`{"id": "`)
		require.Contains(t, f.run("-session", id).must(t, 1).stderr, "corrupt session file")
		require.Equal(t, []string{"complete"}, kinds(f.events("-session", id)), "its events can be printed all the same")
		f.run().must(t, 0) // a new session is not affected
	})
	parallel(t, "a state directory that cannot be created", func(t *testing.T, f *fixture) {
		require.NoError(t, os.WriteFile(f.state, nil, 0o600))
		said := f.run().must(t, 1).stderr
		require.Contains(t, said, "create state directory")
		require.Contains(t, said, "name another one with -state")
	})
	parallel(t, "a state directory that everybody can write to", func(t *testing.T, f *fixture) {
		require.NoError(t, os.Mkdir(f.state, 0o700))
		require.NoError(t, os.Chmod(f.state, 0o777)) //nolint:gosec // that is what is refused
		require.Contains(t, f.run().must(t, 1).stderr, "everybody can write to")
		require.NoFileExists(t, filepath.Join(f.state, "events.db"))
	})
	parallel(t, "an invalid database file", func(t *testing.T, f *fixture) {
		require.NoError(t, os.Mkdir(f.state, 0o700))
		notADatabase := []byte("this is not a database, it is a text")
		require.NoError(t, os.WriteFile(filepath.Join(f.state, "events.db"), notADatabase, 0o600))
		require.Contains(t, f.run().must(t, 1).stderr, "events.db")
		require.NoFileExists(t, filepath.Join(f.state, "session.json"))
	})
	parallel(t, "a missing project, or not the session's", func(t *testing.T, f *fixture) {
		require.Contains(t, f.run("-project", "nowhere").must(t, 1).stderr, "find project")
		require.NoDirExists(t, f.state)
		f.run().must(t, 0)
		const another = "belongs to another project, the built-in demo"
		require.Contains(t, f.run("-resume", "-project", "demo").must(t, 1).stderr, another)
	})
}

// overwrite replaces the content of the last session's file.
func (f *fixture) overwrite(text string) {
	f.t.Helper()
	id := f.session().ID
	text = strings.ReplaceAll(text, `"ID"`, strconv.Quote(id))
	require.NoError(f.t, os.WriteFile(filepath.Join(f.state, "session.json"), []byte(text), 0o600))
}
