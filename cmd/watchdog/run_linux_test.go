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

	"github.com/stretchr/testify/assert"
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
		runSteps(os.Args[2:])
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
			assert.Fail(t, "a process is left", "%+v", left)
			_ = syscall.Kill(left.PID, syscall.SIGKILL)
		}
	})
	return f
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// child returns a command that runs the steps; see runSteps.
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

// run runs the program to its end and checks that no process of its command is alive.
func (f *fixture) run(flags string, command ...string) outcome {
	f.Helper()
	o := finish(f.T, f.cmd(flags, command...))
	assert.Empty(f, escape.WithToken(f.token), "a process outlives the program")
	return o
}

// must fails the test unless the program ended with the status.
func (o outcome) must(t *testing.T, status int) outcome {
	t.Helper()
	require.Equalf(t, status, o.status, "exit status; it printed\n%s\n%s", o.stdout, o.stderr)
	return o
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fixture) exists(name string) bool {
	_, err := os.Lstat(f.path(name))
	return err == nil
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 5*time.Millisecond, what)
}
