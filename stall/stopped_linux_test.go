package stall_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/stall"
)

// TestStoppedHost checks that time in which the host is stopped, as by Ctrl-Z, is not silence, whenever it was.
func TestStoppedHost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		after, stopped time.Duration
		quiet          string // how long the command is silent after the stop began
		trips          bool
	}{
		{"longer than the limit", 300 * time.Millisecond, 3500 * time.Millisecond, "4s", false},
		{"and goes on shortly before the limit", 300 * time.Millisecond, 2500 * time.Millisecond, "3500ms", false},
		{"and goes on shortly after the limit", time.Second, 2050 * time.Millisecond, "3500ms", false},
		{"and a silence after that is one", 100 * time.Millisecond, 500 * time.Millisecond, "1m", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for range racing.Rounds(1, 5) {
				cmd := command(t, "stoppable:"+c.quiet)
				// In the group of the tests a stopped process would have the kernel hang up on all of it, when a process
				// of it exits whose parent is a guard: if no shell is above the group, it is an orphaned one.
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				out, err := cmd.StdoutPipe()
				require.NoError(t, err)
				require.NoError(t, cmd.Start())
				line := make([]byte, len(ready)+1)
				_, err = out.Read(line)
				require.NoError(t, err)
				time.Sleep(c.after)
				require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
				time.Sleep(c.stopped)
				require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
				err = cmd.Wait()
				eventually(t, "its guard ends", func() bool { return len(processesWith(tokenOf(cmd))) == 0 })
				require.Equal(t, c.trips, err != nil)
			}
		})
	}
}

// stoppable:3s runs a command that is silent so long. It exits with 9 if that is a stall.
func stoppable(quiet string) error {
	cmd := exec.Command(os.Args[0], childArg, "print:"+ready, "sleep:"+quiet)
	cmd.Stdout = os.Stdout
	cfg := stall.Config{
		Step: "step", Store: &watchdog.Memory{}, Logger: discard, NoOutput: 3 * time.Second, OnStall: stall.ActionFail,
	}
	if _, err := stall.Run(context.Background(), cmd, cfg); err != nil {
		os.Exit(9)
	}
	return nil
}

// TestPrompt checks that the start of a line is matched when nothing more comes.
func TestPrompt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.Terminal = []*regexp.Regexp{regexp.MustCompile(`^Password:$`)}
	result, _ := f.stalled(command(t, "prompt:10%\rPassword:", "stay"))
	require.Equal(t, stall.KindTerminal, result.Trip.Kind)
}

// TestOneFile checks that two outputs in one file keep their order, and that in two places of it they are kept apart.
func TestOneFile(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, open func(path string) (*os.File, *os.File)) string {
		t.Helper()
		path := t.TempDir() + "/out"
		out, errs := open(path)
		f := newFixture(t)
		f.cfg.Terminal = []*regexp.Regexp{regexp.MustCompile("never")}
		cmd := command(t, "number:1000")
		cmd.Stdout, cmd.Stderr = out, errs
		_, err := f.run(cmd)
		require.NoError(t, err)
		require.NoError(t, out.Close())
		require.NoError(t, errs.Close())
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	openFile := func(path string, flags int) *os.File {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flags, 0o600)
		require.NoError(t, err)
		return file
	}
	var want strings.Builder
	for n := range 1000 {
		fmt.Fprintln(&want, n)
	}
	t.Run("shared, as after 2>&1", func(t *testing.T) {
		require.Equal(t, want.String(), run(t, func(path string) (*os.File, *os.File) {
			out := openFile(path, 0)
			fd, err := syscall.Dup(int(out.Fd()))
			require.NoError(t, err)
			return out, os.NewFile(uintptr(fd), "errs")
		}))
	})
	t.Run("opened twice for appending", func(t *testing.T) {
		require.Equal(t, want.String(), run(t, func(path string) (*os.File, *os.File) {
			return openFile(path, os.O_APPEND), openFile(path, os.O_APPEND)
		}))
	})
	t.Run("opened twice", func(t *testing.T) {
		text := run(t, func(path string) (*os.File, *os.File) { return openFile(path, 0), openFile(path, 0) })
		require.Less(t, len(text), want.Len(), "they write over each other, as without Run")
	})
}

// TestForward checks that signals of the host reach the command and end nothing by themselves.
func TestForward(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	forward := make(chan os.Signal)
	f.cfg.Forward = forward
	cmd := command(t, "obey:TERM:9", "print:"+ready, "stay")
	cmd.Stdout = &onFirstWrite{func() { forward <- syscall.SIGCONT; forward <- syscall.SIGTERM; close(forward) }}
	result, err := f.run(cmd)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 9, exit.ExitCode())
	require.True(t, result.Finished)
	require.Empty(t, result.Sent)
}
