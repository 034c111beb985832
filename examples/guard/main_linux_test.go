package main_test

import (
	"bytes"
	"errors"
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
	"go.uber.org/goleak"

	guard "github.com/seed62658d38/watchdog/examples/guard"
	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// asProgram is the variable that makes this test binary the program, where its arguments do not make it a command.
const asProgram = "GUARD_TEST_PROGRAM"

// patience is how long a test waits for what takes no time on a machine that is not busy.
const patience = time.Minute

func TestMain(m *testing.M) {
	escape.Main()
	switch {
	case len(os.Args) > 1 && strings.HasPrefix(os.Args[1], actor):
		act(os.Args[2:])
	case os.Getenv(asProgram) != "":
		guard.Main()
	case racing.Enabled:
		fmt.Println("not under the race detector: the program is started hundreds of times, and package stall has been seen to by its own tests")
	default:
		goleak.VerifyTestMain(m)
	}
}

// A bed is a folder in which a test runs the program. Nothing of its commands may be alive at the end.
type bed struct {
	*testing.T
	dir   string
	token string // the first argument of each of its commands
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{T: t, dir: t.TempDir(), token: fmt.Sprintf("%s%d", actor, rand.Uint64())}
	t.Cleanup(func() {
		for _, left := range escape.WithToken(b.token) {
			assert.Fail(t, "a process is left", "%+v", left)
			_ = syscall.Kill(left.PID, syscall.SIGKILL)
		}
	})
	return b
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// play is a command that does the steps, see act.
func (b *bed) play(steps ...string) []string {
	b.Helper()
	return append([]string{self(b.T), b.token}, steps...)
}

// guard is the program with its flags and a command.
func (b *bed) guard(flags string, command ...string) *exec.Cmd {
	b.Helper()
	args := append(strings.Fields(flags), "--")
	return b.program(append(args, command...)...)
}

func (b *bed) program(args ...string) *exec.Cmd {
	b.Helper()
	cmd := exec.Command(self(b.T), args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// An outcome is what a run of the program came to.
type outcome struct {
	code           int
	stdout, stderr string
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

// run runs the program to its end and looks for what is left of its command.
func (b *bed) run(flags string, command ...string) outcome {
	b.Helper()
	o := finish(b.T, b.guard(flags, command...))
	assert.Empty(b, escape.WithToken(b.token), "nothing is left when the program ends")
	return o
}

// must fails the test unless the program ended with the status.
func (o outcome) must(t *testing.T, code int) outcome {
	t.Helper()
	require.Equalf(t, code, o.code, "exit status; it printed\n%s\n%s", o.stdout, o.stderr)
	return o
}

func (b *bed) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bed) exists(name string) bool {
	_, err := os.Lstat(b.path(name))
	return err == nil
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 5*time.Millisecond, what)
}
