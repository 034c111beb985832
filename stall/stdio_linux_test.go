package stall_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/stall"
)

func TestInput(t *testing.T) {
	t.Parallel()
	echo := func(t *testing.T, in io.Reader) string {
		t.Helper()
		cmd := command(t, "echo")
		cmd.Stdin = in
		var out strings.Builder
		cmd.Stdout = &out
		_, err := newFixture(t).run(cmd)
		require.NoError(t, err)
		return out.String()
	}
	text := strings.Repeat("much more than a pipe holds\n", 100_000)
	t.Run("from a reader", func(t *testing.T) { require.Equal(t, text, echo(t, strings.NewReader(text))) })
	t.Run("from nothing", func(t *testing.T) { require.Empty(t, echo(t, nil)) })
	t.Run("from a file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "in")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		file, err := os.Open(path)
		require.NoError(t, err)
		defer file.Close()
		require.Equal(t, text, echo(t, file))
		require.NoError(t, file.Close(), "Run did not close it")
	})
	t.Run("that nobody reads does not delay Run", func(t *testing.T) {
		cmd := command(t)
		cmd.Stdin = strings.NewReader(text)
		_, err := newFixture(t).run(cmd)
		require.NoError(t, err)
	})
}

func TestOutput(t *testing.T) {
	t.Parallel()
	t.Run("to two writers keeps them apart", func(t *testing.T) {
		cmd := command(t, "print:a", "warn:b")
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		_, err := newFixture(t).run(cmd)
		require.NoError(t, err)
		require.Equal(t, "a\nb\n", out.String()+errs.String())
		require.Equal(t, "a\n", out.String())
	})
	t.Run("to a closed reader ends the command, and not the host", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer w.Close()
		require.NoError(t, r.Close())
		cmd := command(t, "flood:"+floodSize, "stay")
		cmd.Stdout = w
		f := newFixture(t)
		f.cfg.NoOutput = longTime
		result, err := f.run(cmd)
		require.Error(t, err)
		require.True(t, result.Finished)
		require.Error(t, result.OutputErr)
	})
	t.Run("to a writer that fails is reported", func(t *testing.T) {
		cmd := command(t, "print:a")
		cmd.Stdout = failing{}
		result, err := newFixture(t).run(cmd)
		require.NoError(t, err)
		require.ErrorIs(t, result.OutputErr, errEnough)
	})
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errEnough }

// TestActivitySource checks that only the output that counts is a sign of life.
func TestActivitySource(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source stall.ActivitySource
		one    bool
		stalls bool
	}{
		{stall.ActivityStdout, false, false},
		{stall.ActivityStderr, false, true},
		{stall.ActivityStderr, true, false},
	} {
		t.Run(fmt.Sprintf("%s, one writer %v", c.source, c.one), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.cfg.ActivitySource, f.cfg.NoOutput = c.source, 3*time.Second
			steps := "every:50ms:x"
			if !c.stalls {
				steps += ":80" // four seconds
			}
			cmd := command(t, steps)
			if c.one {
				var out strings.Builder
				cmd.Stdout, cmd.Stderr = &out, &out
			}
			result, err := f.run(cmd)
			require.Equal(t, c.stalls, err != nil, "%v", err)
			require.Equal(t, c.stalls, !result.Finished)
		})
	}
}

// TestOutputFile checks that Run watches an output that is a file.
func TestOutputFile(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) *os.File {
		t.Helper()
		file, err := os.Create(filepath.Join(t.TempDir(), "out"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	t.Run("one that grows is not a stall", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.NoOutput = 3 * time.Second
		cmd, file := command(t, "every:100ms:x:40"), open(t)
		cmd.Stdout = file
		_, err := f.run(cmd)
		require.NoError(t, err)
		text, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		require.Equal(t, strings.Repeat("x\n", 40), string(text))
	})
	t.Run("one that does not grow is a stall, in time", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.NoOutput = 2 * time.Second
		cmd := command(t, "print:x", "stay")
		cmd.Stdout = open(t)
		began := time.Now()
		result, _ := f.stalled(cmd)
		require.Equal(t, []string{"stall/no_output"}, result.Trip.Fingerprints, "there was some")
		require.Less(t, result.Trip.ObservedAt.Sub(began), 2*f.cfg.NoOutput+slack)
	})
}

func descriptors(tb testing.TB) int {
	tb.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(tb, err)
	return len(all)
}

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

// maxGrowth is how much the memory of a host may grow, in bytes.
const maxGrowth = 32 << 20

// TestOutputMemory checks that the memory of a host does not grow with the output.
func TestOutputMemory(t *testing.T) {
	t.Parallel()
	size, line := racing.Rounds[int64](128<<20, 10_000_000_000), racing.Rounds[int64](128<<20, 1<<30)
	for _, c := range []struct {
		name, to string
		bytes    int64
	}{
		{"much of it", "writer", size},
		{"one line, matched with patterns and kept as a tail", "matched", line},
		{"much of it, to a reader that pauses", "slow", 64 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, "memory:"+c.to+":"+strconv.FormatInt(c.bytes, 10))
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
}

// memory:TO:BYTES runs a command that prints so many bytes, in a host of its own. It fails if the host needed too much
// memory or did not get all bytes.
func memory(argument string) error {
	to, size, _ := strings.Cut(argument, ":")
	cfg := stall.Config{Step: "step", Store: &watchdog.Memory{}, Logger: discard, NoOutput: longTime}
	var got int64
	cmd := exec.Command(os.Args[0], childArg, "flood:"+size)
	cmd.Stdout = counter{&got, 0}
	switch to {
	case "slow":
		cmd.Stdout = counter{&got, 10 * time.Millisecond}
	case "matched":
		cfg.Terminal = []*regexp.Regexp{regexp.MustCompile("FATAL")}
		cfg.Artifacts, cfg.Tail = os.TempDir(), &stall.Tail{Bytes: 1 << 20, Redact: func(p []byte) []byte { return p }}
	}
	warm := exec.Command(os.Args[0], childArg, "flood:1048576")
	warm.Stdout = counter{new(int64), 0}
	if _, err := stall.Run(context.Background(), warm, cfg); err != nil {
		return err
	}
	debug.FreeOSMemory()
	before := peakMemory()
	if _, err := stall.Run(context.Background(), cmd, cfg); err != nil {
		return err
	}
	after := peakMemory()
	if want, _ := strconv.ParseInt(size, 10, 64); got != want {
		return fmt.Errorf("%d bytes of %d came", got, want)
	}
	if before == 0 || after-before > maxGrowth {
		return fmt.Errorf("the host grew from %d to %d bytes", before, after)
	}
	return nil
}

// A counter is a writer that counts the bytes, after a pause.
type counter struct {
	n     *int64
	pause time.Duration
}

func (c counter) Write(p []byte) (int, error) {
	time.Sleep(c.pause)
	for _, b := range p {
		if b != 0 {
			return 0, errors.New("a byte was changed")
		}
	}
	*c.n += int64(len(p))
	return len(p), nil
}

// peakMemory returns the most memory that this process has had, in bytes.
func peakMemory() int64 {
	text, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kilobytes int64
	_, _ = fmt.Sscan(rest, &kilobytes)
	return kilobytes << 10
}
