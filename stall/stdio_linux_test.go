package stall_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/escape/script"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/tty"
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
		newFixture(t).succeeds(cmd)
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
		newFixture(t).succeeds(cmd)
	})
}

// TestOutputToFile checks that a command has the host's own file where nobody has to read its output.
func TestOutputToFile(t *testing.T) {
	t.Parallel()
	anyLine := []*regexp.Regexp{regexp.MustCompile("^no line has this$")}
	for name, c := range map[string]struct {
		cfg  stall.Config
		pipe bool
	}{
		"whose growth is output":        {stall.Config{}, false},
		"whose growth does not matter":  {stall.Config{ActivitySource: stall.ActivityStderr}, false},
		"in which lines are looked for": {stall.Config{Terminal: anyLine}, true},
	} {
		parallel(t, name, func(t *testing.T) {
			file, err := os.Create(filepath.Join(t.TempDir(), "out"))
			require.NoError(t, err)
			defer file.Close()
			cmd := exec.Command("readlink", "/proc/self/fd/1")
			cmd.Stdout, c.cfg.Step, c.cfg.Store = file, "step", &watchdog.Memory{}
			_, err = stall.Run(t.Context(), cmd, c.cfg)
			require.NoError(t, err)
			text, err := os.ReadFile(file.Name())
			require.NoError(t, err)
			if c.pipe {
				require.Contains(t, string(text), "pipe:[")
				return
			}
			require.Equal(t, file.Name()+"\n", string(text))
		})
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	t.Run("to two writers keeps them apart", func(t *testing.T) {
		cmd := command(t, "print:a", "warn:b")
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		newFixture(t).succeeds(cmd)
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
		result := newFixture(t).succeeds(cmd)
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
		inFixture(t, fmt.Sprintf("%s, one writer %v", c.source, c.one), func(t *testing.T, f *fixture) {
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
	inFixture(t, "one that grows is not a stall", func(t *testing.T, f *fixture) {
		f.cfg.NoOutput = 3 * time.Second
		cmd, file := command(t, "every:100ms:x:40"), open(t)
		cmd.Stdout = file
		f.succeeds(cmd)
		text, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		require.Equal(t, strings.Repeat("x\n", 40), string(text))
	})
	inFixture(t, "one that does not grow is a stall, in time", func(t *testing.T, f *fixture) {
		f.cfg.NoOutput = 2 * time.Second
		cmd := command(t, "print:x", "stay")
		cmd.Stdout = open(t)
		began := time.Now()
		result, _ := f.stalled(cmd)
		require.Equal(t, []string{"stall/no_output"}, result.Trip.Fingerprints, "there was some")
		require.Less(t, result.Trip.ObservedAt.Sub(began), 2*f.cfg.NoOutput+slack)
	})
}

// TestSharedFile checks that what others write to the file that is the output is no sign of the command's life.
func TestSharedFile(t *testing.T) {
	t.Parallel()
	// shared opens a file for appending, to which another writes all the time.
	shared := func(t *testing.T) *os.File {
		t.Helper()
		file, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		require.NoError(t, err)
		other := command(t, "every:50ms:other")
		other.Stdout = file
		require.NoError(t, other.Start())
		t.Cleanup(func() {
			_, _ = other.Process.Kill(), other.Wait()
			_ = file.Close()
		})
		return file
	}
	inFixture(t, "beside another writer it is silent, and its own output is whole", func(t *testing.T, f *fixture) {
		f.cfg.NoOutput = 2 * time.Second
		cmd := command(t, "print:own", "stay")
		file := shared(t)
		cmd.Stdout, cmd.Stderr = file, file
		result, _ := f.stalled(cmd)
		require.Equal(t, stall.KindNoOutput, result.Trip.Kind)
		require.NoError(t, result.OutputErr)
		text, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(text), "own\n"))
	})
	inFixture(t, "one with the file itself is kept alive by it, and is told so", func(t *testing.T, f *fixture) {
		var log strings.Builder
		f.cfg.NoOutput, f.cfg.FileItself, f.cfg.Logger = 2*time.Second, true, slog.New(slog.NewTextHandler(&log, nil))
		cmd := command(t, "sleep:4s")
		cmd.Stdout = shared(t)
		f.succeeds(cmd)
		require.Equal(t, 1, strings.Count(log.String(), "what others write to it"), log.String())
	})
	inFixture(t, "a log that is rotated or truncated has what is written after that", func(t *testing.T, f *fixture) {
		f.cfg.NoOutput = longTime
		path := filepath.Join(t.TempDir(), "log")
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		require.NoError(t, err)
		defer file.Close()
		cmd := command(t, "print:a", "await:"+path+".2", "print:b", "await:"+path+".3", "print:c")
		cmd.Stdout = file
		c := newCommand(t, cmd, f.cfg)
		require.NoError(t, c.Start(t.Context()))
		holds := func(want string) {
			eventually(t, want, func() bool {
				text, err := os.ReadFile(path)
				return err == nil && string(text) == want
			})
		}
		holds("a\n")
		require.NoError(t, os.Rename(path, path+".1"))
		path += ".1"
		require.NoError(t, script.Touch(strings.TrimSuffix(path, ".1")+".2"))
		holds("a\nb\n")
		require.NoError(t, os.Truncate(path, 0))
		require.NoError(t, script.Touch(strings.TrimSuffix(path, ".1")+".3"))
		waited(t, c)
		holds("c\n")
	})
	inFixture(t, "a child of another user is silent beside another writer, and was heard", func(t *testing.T, f *fixture) {
		f.cfg.NoOutput = 3 * time.Second
		cmd, file := setuid(t, "cat"), shared(t)
		in, own, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = in.Close(), own.Close() })
		_, err = own.WriteString("own\n")
		require.NoError(t, err)
		cmd.Stdin, cmd.Stdout = in, file
		result, _ := f.stalled(cmd)
		require.Equal(t, []string{"stall/no_output"}, result.Trip.Fingerprints, "there was some")
		text, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(text), "own\n"))
	})
}

// setuid returns a command of another user than the one who executes it.
func setuid(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can give a file away")
	}
	path, err := exec.LookPath(name)
	require.NoError(t, err)
	program, err := os.ReadFile(path)
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, program, 0o600))
	require.NoError(t, os.Chown(path, nobody, nobody))
	require.NoError(t, os.Chmod(path, os.ModeSetuid|0o755))
	return exec.Command(path)
}

// TestFileOutput checks that a file has what a command writes, wherever silence is a signal, as if it were passed itself.
func TestFileOutput(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, flags int) *os.File {
		t.Helper()
		path := filepath.Join(t.TempDir(), "out")
		require.NoError(t, os.WriteFile(path, []byte("0123456789"), 0o600))
		file, err := os.OpenFile(path, os.O_RDWR|flags, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	holds := func(t *testing.T, file *os.File, want string) {
		t.Helper()
		text, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
	for _, length := range []time.Duration{0, longTime} {
		within := fmt.Sprintf(", under a limit of %v", length)
		inFixture(t, "at the host's offset, which moves on"+within, func(t *testing.T, f *fixture) {
			f.cfg.NoOutput = length
			cmd, file := command(t, "print:ab"), open(t, 0)
			_, err := file.Seek(2, io.SeekStart)
			require.NoError(t, err)
			cmd.Stdout = file
			f.succeeds(cmd)
			_, err = file.WriteString("AB")
			require.NoError(t, err)
			holds(t, file, "01ab\nAB789")
		})
		inFixture(t, "at the end of one that is appended to"+within, func(t *testing.T, f *fixture) {
			f.cfg.NoOutput = length
			cmd, file := command(t, "print:a", "print:b"), open(t, os.O_APPEND)
			cmd.Stdout = file
			f.succeeds(cmd)
			_, err := file.WriteString("AB")
			require.NoError(t, err)
			holds(t, file, "0123456789a\nb\nAB")
		})
		inFixture(t, "two files, and one opened twice"+within, func(t *testing.T, f *fixture) {
			f.cfg.NoOutput = length
			cmd, out, errs := command(t, "print:a", "warn:b"), open(t, 0), open(t, 0)
			cmd.Stdout, cmd.Stderr = out, errs
			f.succeeds(cmd)
			holds(t, out, "a\n23456789")
			holds(t, errs, "b\n23456789")
			second, err := os.OpenFile(out.Name(), os.O_WRONLY, 0)
			require.NoError(t, err)
			defer second.Close()
			_, err = second.Seek(6, io.SeekStart)
			require.NoError(t, err)
			cmd = command(t, "print:c", "warn:d")
			cmd.Stdout, cmd.Stderr = out, second
			f.succeeds(cmd)
			holds(t, out, "a\nc\n45d\n89")
		})
		inFixture(t, "from sendfile, splice and package io"+within, func(t *testing.T, f *fixture) {
			f.cfg.NoOutput = length
			text := strings.Repeat("much more than a pipe holds\n", 100_000)
			from := filepath.Join(t.TempDir(), "from")
			require.NoError(t, os.WriteFile(from, []byte(text), 0o600))
			cmd, file := command(t, "sendfile:"+from, "splice:"+from, "copyfile:"+from), open(t, os.O_TRUNC)
			cmd.Stdout = file
			f.succeeds(cmd)
			holds(t, file, text+text+text)
		})
	}
	inFixture(t, "sendfile alone is a sign of life", func(t *testing.T, f *fixture) {
		f.cfg.NoOutput = 3 * time.Second
		from := filepath.Join(t.TempDir(), "from")
		require.NoError(t, os.WriteFile(from, []byte("x\n"), 0o600))
		steps := strings.Fields(strings.Repeat("sendfile:"+from+" sleep:1s ", 5))
		cmd, file := command(t, steps...), open(t, os.O_TRUNC)
		cmd.Stdout = file
		f.succeeds(cmd)
		holds(t, file, strings.Repeat("x\n", 5))
	})
	inFixture(t, "a named pipe is none", func(t *testing.T, f *fixture) {
		f.cfg.NoOutput, f.cfg.FileItself = 2*time.Second, true
		path := filepath.Join(t.TempDir(), "pipe")
		require.NoError(t, syscall.Mkfifo(path, 0o600))
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		defer file.Close()
		cmd := command(t, "print:a", "stay")
		cmd.Stdout = file
		f.stalled(cmd)
		line := make([]byte, 2)
		_, err = io.ReadFull(file, line)
		require.NoError(t, err)
		require.Equal(t, "a\n", string(line))
	})
}

// TestFullDisk checks that a command whose output a disk has no place for is ended by its next write, as by a reader that
// has gone, and that the host is told why.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	inFixture(t, "of a file system", func(t *testing.T, f *fixture) {
		f.cfg.NoOutput = longTime
		dir := t.TempDir()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
			t.Skip("no file system of its own:", err)
		}
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
		file, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		require.NoError(t, err)
		defer file.Close()
		cmd := command(t, "flood:"+floodSize, "stay")
		cmd.Stdout = file
		result, err := f.run(cmd)
		require.ErrorIs(t, result.OutputErr, syscall.ENOSPC)
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, syscall.SIGPIPE, exit.Sys().(syscall.WaitStatus).Signal())
		require.True(t, result.Finished)
		is, err := file.Stat()
		require.NoError(t, err)
		require.Equal(t, int64(64<<10), is.Size(), "all that there is place for")
	})
	parallel(t, "of a limit, which does not end the host", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "out")
		cmd := command(t, "limited:"+path)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Run(), stderr.String())
		is, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, int64(64<<10), is.Size())
	})
}

// limited:FILE is a host whose files may have 64 KiB.
func limited(path string) error {
	most := syscall.Rlimit{Cur: 64 << 10, Max: 64 << 10}
	err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &most)
	file, failed := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0], childArg, "flood:"+floodSize, "stay")
	cmd.Stdout = file
	cfg := stall.Config{Step: "step", Store: &watchdog.Memory{}, Logger: discard, NoOutput: longTime}
	result, err := stall.Run(context.Background(), cmd, cfg)
	if !errors.Is(result.OutputErr, syscall.EFBIG) {
		return errors.Join(errors.New("the host was not told"), err)
	}
	return nil
}

// sendfile:FILE has the kernel copy a file to standard output.
func sendfile(path string) error {
	return copied(path, func(from *os.File, most int) (int, error) {
		return syscall.Sendfile(1, int(from.Fd()), nil, most)
	})
}

// splice:FILE has it do so by way of a pipe.
func splice(path string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	return copied(path, func(from *os.File, most int) (int, error) {
		n, err := syscall.Splice(int(from.Fd()), nil, int(w.Fd()), nil, min(most, 4096), 0)
		for left := n; left > 0 && err == nil; {
			var moved int64
			moved, err = syscall.Splice(int(r.Fd()), nil, 1, nil, int(left), 0)
			left -= moved
		}
		return int(n), err
	})
}

// copyfile:FILE does so as package io does, with copy_file_range where that can.
func copyFile(path string) error {
	return copied(path, func(from *os.File, _ int) (int, error) {
		n, err := io.Copy(os.Stdout, from)
		return int(n), err
	})
}

// copied copies a file part by part.
func copied(path string, part func(from *os.File, most int) (int, error)) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	for {
		if n, err := part(from, 1<<20); n == 0 || err != nil {
			return err
		}
	}
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
		host           string // what it is to do
		trips          bool
	}{
		{"longer than the limit", 300 * time.Millisecond, 3500 * time.Millisecond, "stoppable:4s", false},
		{"and goes on shortly before the limit", 300 * time.Millisecond, 2500 * time.Millisecond, "stoppable:3500ms", false},
		{"and goes on shortly after the limit", time.Second, 2050 * time.Millisecond, "stoppable:3500ms", false},
		{"longer than the limit, with much to do", time.Second, 2500 * time.Millisecond, "busy stoppable:4s", false},
		{"and a silence after that is one", 100 * time.Millisecond, 500 * time.Millisecond, "stoppable:1m", true},
	} {
		parallel(t, c.name, func(t *testing.T) {
			for range racing.Rounds(1, 5) {
				cmd := command(t, strings.Fields(c.host)...)
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

// TestContinuedOverAndOver checks that SIGCONT, which anybody can send any number of times, keeps no hung command alive.
func TestContinuedOverAndOver(t *testing.T) {
	t.Parallel()
	cmd := command(t, "stoppable:1h")
	ended := make(chan error, 1)
	require.NoError(t, cmd.Start())
	go func() { ended <- cmd.Wait() }()
	began := time.Now()
	for every := time.Tick(300 * time.Millisecond); ; {
		select {
		case err := <-ended:
			require.ErrorContains(t, err, "exit status 9")
			return
		case <-every:
			require.Less(t, time.Since(began), slack, "it is not ended")
			_ = cmd.Process.Signal(syscall.SIGCONT) // fails if it has just ended
		}
	}
}

// busy leaves its process so much to do that it hears late of a signal.
func busy(string) error {
	runtime.GOMAXPROCS(2)
	for range 4 {
		go func() {
			for {
				runtime.KeepAlive(nil)
			}
		}()
	}
	return nil
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

// TestOneFile checks that two outputs in one file keep their order, and that in two places of it they are kept apart.
func TestOneFile(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, open func(path string) (*os.File, *os.File)) string {
		t.Helper()
		path := t.TempDir() + "/out"
		out, errs := open(path)
		f := newFixture(t)
		f.cfg.NoOutput = longTime
		cmd := command(t, "alternate:1000")
		cmd.Stdout, cmd.Stderr = out, errs
		f.succeeds(cmd)
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
	require.Equal(t, 9, exitCode(t, err))
	require.True(t, result.Finished)
	require.Empty(t, result.Sent)
}

// TestTTYHost checks that a host's terminal is set as before however the host ends, and that nothing of the command is
// left. A shell has the terminal, too, and does not care how it is set.
func TestTTYHost(t *testing.T) {
	t.Parallel()
	for how, code := range map[string]string{"run": "0", "exit": "3", "none": "0", "two": "0"} {
		parallel(t, how, func(t *testing.T) {
			output, line, err := tty.Pair()
			require.NoError(t, err)
			defer output.Close()
			defer line.Close()
			before := tty.Save(line)
			cmd := command(t, "terminal:"+how)
			cmd.Args = append([]string{"sh", "-c", `"$@" 2>/dev/null; echo status $?; read x`, "sh"}, cmd.Args...)
			cmd.Path, err = exec.LookPath("sh")
			require.NoError(t, err)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = line, line, line
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			require.NoError(t, cmd.Start())
			lines := bufio.NewReader(output)
			text := ""
			for !strings.HasPrefix(text, "status ") {
				text, err = lines.ReadString('\n')
				require.NoError(t, err)
			}
			require.Equal(t, "status "+code, strings.TrimSpace(text))
			eventually(t, "nothing is left", func() bool { return len(processesWith(tokenOf(cmd))) <= 1 })
			eventually(t, "the terminal is as before", func() bool { return before[0] == tty.Save(line)[0] })
			_, err = output.WriteString("\n")
			require.NoError(t, err)
			require.NoError(t, cmd.Wait())
		})
	}
}

// terminal:exit is a host that gives its terminal to a command, and ends so.
func hostOnTerminal(how string) error {
	line := []string{os.Args[0], childArg, "print:" + ready, "stay"}
	if how == "run" {
		line[3] = "kill:KILL"
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cfg := stall.Config{Step: "step", Store: &watchdog.Memory{}, Logger: discard, NoOutput: time.Hour, TTY: true}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch how {
	case "none":
		cmd = exec.Command("/nonexistent")
		cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	case "exit":
		time.AfterFunc(time.Second, func() { os.Exit(3) })
	case "two":
		defer time.AfterFunc(time.Second, func() {
			second := exec.Command(line[0], line[1:]...)
			second.Stdout = os.Stdout
			if _, err := stall.Run(ctx, second, cfg); err == nil || !strings.Contains(err.Error(), "one at a time") {
				os.Exit(9)
			}
			cancel()
		}).Stop()
	}
	_, err := stall.Run(ctx, cmd, cfg)
	if err == nil {
		return errors.New("it ended with no error")
	}
	goleak.VerifyTestMain(succeeded{}) // ends the process, and with 1 if a goroutine is left
	return nil
}

// succeeded is a run of tests that did.
type succeeded struct{}

// Run implements [goleak.TestingM].
func (succeeded) Run() int { return 0 }
