package main_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// patience bounds every wait in these tests; an idle machine needs milliseconds.
const patience = time.Minute

// A test binary that a test starts as a command is that, whatever TestMain does.
func init() {
	escape.Main()
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], childPrefix) {
		stepFuncs.Do(os.Args[2:])
	}
}

// A fixture runs the program in a temporary folder. Its cleanup checks that no process of its commands is alive.
type fixture struct {
	*testing.T
	dir   string
	token string // the first argument of each of its commands
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if racing.Enabled {
		t.Skip("the tests of run start hundreds of processes, which takes too long with the race detector")
	}
	f := &fixture{T: t, dir: t.TempDir(), token: fmt.Sprintf("%s%d", childPrefix, rand.Uint64())}
	t.Cleanup(func() {
		for _, left := range escape.WithToken(f.token) {
			require.Fail(t, "a process is left", "%+v", left)
			_ = syscall.Kill(left.PID, syscall.SIGKILL)
		}
	})
	return f
}

// inFixture runs a test in a fixture of its own, beside others.
func inFixture(t *testing.T, name string, test func(t *testing.T, f *fixture)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { t.Parallel(); test(t, newFixture(t)) })
}

// withModels is inFixture with a server of models.
func withModels(t *testing.T, name string, test func(t *testing.T, f *fixture, m *models)) {
	t.Helper()
	inFixture(t, name, func(t *testing.T, f *fixture) { test(t, f, serveModels(t)) })
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// child returns a command that runs the steps; see package script.
func (f *fixture) child(steps ...string) []string {
	f.Helper()
	return append([]string{self(f.T), f.token}, steps...)
}

// cmd returns the program with the flags of run and a command.
func (f *fixture) cmd(flags string, command ...string) *exec.Cmd {
	f.Helper()
	args := append(strings.Fields(flags), "--")
	return f.program(append(args, command...)...)
}

// program returns the program, about to run.
func (f *fixture) program(args ...string) *exec.Cmd {
	f.Helper()
	cmd := programCmd(f, []string{"TERM=xterm", "NO_COLOR="}, append([]string{"run"}, args...)...)
	cmd.Dir = f.dir
	return cmd
}

// run is ended with the flags of run and a command.
func (f *fixture) run(flags string, command ...string) outcome {
	f.Helper()
	return f.ended(f.cmd(flags, command...))
}

// ended runs a program to its end and checks that nothing of its command is alive.
func (f *fixture) ended(cmd *exec.Cmd) outcome {
	f.Helper()
	o := finish(f.T, cmd)
	require.Empty(f, escape.WithToken(f.token), "a process outlives the program")
	return o
}

// under returns a command under another program.
func under(cmd *exec.Cmd, program ...string) *exec.Cmd {
	around := exec.Command(program[0], append(append(program[1:], cmd.Path), cmd.Args[1:]...)...)
	around.Dir, around.Env = cmd.Dir, cmd.Env
	return around
}

// inShell returns a shell that executes a script, in which "$@" is a command.
func inShell(cmd *exec.Cmd, script string) *exec.Cmd { return under(cmd, "sh", "-c", script, "sh") }

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fixture) exists(name string) bool {
	_, err := os.Lstat(f.path(name))
	return err == nil
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 5*time.Millisecond, what)
}

// TestFewDescriptors checks that the error names the limit, and not /proc, which cannot be read then.
func TestFewDescriptors(t *testing.T) {
	f := newFixture(t)
	o := finish(t, inShell(f.cmd("", "true"), `ulimit -n 8; exec "$@"`)).must(t, 125)
	require.Contains(t, o.stderr, "raise its limit (ulimit -n)")
	require.NotContains(t, o.stderr, "mount")
}

// TestNoProc has the program where /proc is not mounted, as in a bare chroot.
func TestNoProc(t *testing.T) {
	f := newFixture(t)
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	without := inShell(f.cmd("", "true"), `mount -t tmpfs none /proc && exec "$@"`)
	without.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	o := finish(t, without).must(t, 125)
	require.Contains(t, o.stderr, "guarded only where /proc is mounted; mount it with mount -t proc none /proc")
}

// TestNoInterpreter has a file without a first line that says what reads it, which timeout runs by a shell.
func TestNoInterpreter(t *testing.T) {
	f := newFixture(t)
	script := []byte("echo \"$0 $*\" here; kill -TERM $$\n")
	require.NoError(t, os.WriteFile(f.path("script"), script, 0o700)) //nolint:gosec // it must be executable
	for _, flags := range []string{"", "--no-output 1m --store sqlite:runs.db --artifacts state"} {
		o := f.run(flags, "./script", "a b", "-c").must(t, 143)
		require.Equal(t, outcome{stdout: "./script a b -c here\n", status: 143}, o)
	}
	const dir = "state/command/_stall/"
	require.NoError(t, os.MkdirAll(f.path(dir), 0o700))
	require.NoError(t, os.WriteFile(f.path(dir+"event.json"), nil, 0o600))
	f.run("--artifacts state", "./script").must(t, 143)
	require.True(t, f.exists(dir+"previous.event.json"), "what the attempt before left is set aside once")
}
