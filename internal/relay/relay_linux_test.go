package relay_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/relay"
	"github.com/seed62658d38/watchdog/internal/tty"
)

func init() {
	roles["host"], roles["unread"], roles["no stderr"] = host, unread, closeStderr
	pipes = append(pipes, sockets)
	destinations = append(destinations,
		destination{"a pipe that blocks", openBlocking}, destination{"a socket", openSocket})
}

func openBlocking(tb testing.TB, to io.Writer) (io.Writer, func()) {
	tb.Helper()
	r, w := blockingPipe(tb)
	return w, drained(tb, r, w, to)
}

func openSocket(tb testing.TB, to io.Writer) (io.Writer, func()) {
	tb.Helper()
	r, w := sockets(tb)
	return w, drained(tb, r, w, to)
}

func appendNull(tb testing.TB, _ io.Writer) (io.Writer, func()) {
	tb.Helper()
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(tb, err)
	return f, func() { require.NoError(tb, f.Close()) }
}

// blockingPipe makes a pipe as a shell does.
func blockingPipe(tb testing.TB) (r, w *os.File) {
	tb.Helper()
	var fds [2]int
	require.NoError(tb, syscall.Pipe2(fds[:], syscall.O_CLOEXEC))
	return os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
}

func sockets(tb testing.TB) (r, w *os.File) {
	tb.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(tb, err)
	return os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
}

func fcntl(tb testing.TB, f *os.File, command uintptr) int {
	tb.Helper()
	raw, err := f.SyscallConn()
	require.NoError(tb, err)
	var n uintptr
	require.NoError(tb, raw.Control(func(fd uintptr) {
		var errno syscall.Errno
		n, _, errno = syscall.Syscall(syscall.SYS_FCNTL, fd, command, 0)
		require.Zero(tb, errno)
	}))
	return int(n)
}

func TestStreamOnLinux(t *testing.T) {
	t.Run("the host's pipe is left as it is", func(t *testing.T) {
		const getPipeSize = 1032
		for _, open := range []func() (r, w *os.File){
			func() (r, w *os.File) { return blockingPipe(t) },
			func() (r, w *os.File) { r, w, _ = os.Pipe(); return r, w },
		} {
			r, w := open()
			flags, size := fcntl(t, w, syscall.F_GETFL), fcntl(t, w, getPipeSize)
			reading := read(r, io.Discard)
			cmd := child(t, "count", 4<<20)
			s := startRelayed(t, cmd, relay.Config{To: w})
			assert.Equal(t, flags, fcntl(t, w, syscall.F_GETFL))
			finishes(t, cmd, s)
			assert.Equal(t, flags, fcntl(t, w, syscall.F_GETFL))
			assert.Equal(t, size, fcntl(t, w, getPipeSize))
			require.NoError(t, w.Close())
			reading.wait(t)
			require.NoError(t, r.Close())
		}
	})
	t.Run("the child's end blocks and is not inherited", func(t *testing.T) {
		s := stream(t, relay.Config{})
		assert.Zero(t, fcntl(t, s.Child(), syscall.F_GETFL)&syscall.O_NONBLOCK)
		assert.Equal(t, syscall.FD_CLOEXEC, fcntl(t, s.Child(), syscall.F_GETFD))
		require.NoError(t, s.Finish(0))
	})
	t.Run("/dev/null opened for appending cannot be spliced to", func(t *testing.T) {
		for _, looked := range []bool{false, true} {
			passes(t, destination{open: appendNull}, looked, child(t, "count", 8<<20), 8<<20, nil)
		}
	})
	t.Run("a terminal that another program made non-blocking loses nothing", func(t *testing.T) {
		ours, terminal := openTerminal(t)
		defer ours.Close()
		raw, err := terminal.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) { require.NoError(t, syscall.SetNonblock(int(fd), true)) }))
		cmd := child(t, "line", 1<<20)
		s := startRelayed(t, cmd, relay.Config{To: terminal})
		eventually(t, func() bool { _, blocked := s.Blocked(); return blocked }, "blocked")
		got, err := io.ReadFull(ours, make([]byte, 1<<20+1))
		require.NoError(t, err, "after %d bytes", got)
		finishes(t, cmd, s)
		require.NoError(t, terminal.Close())
	})
	t.Run("a full disk", func(t *testing.T) {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		defer full.Close()
		cmd := child(t, "flood", 0)
		s := startRelayed(t, cmd, relay.Config{To: full})
		requireSIGPIPE(t, cmd)
		require.ErrorIs(t, s.Finish(timeout), syscall.ENOSPC)
	})
	t.Run("no descriptor is left open", func(t *testing.T) {
		before := descriptors(t)
		for _, d := range destinations {
			for _, looked := range []bool{false, true} {
				passes(t, d, looked, child(t, "count", 100), 100, &checker{})
			}
		}
		for _, to := range []io.Writer{os.Stdout, nil} {
			s := stream(t, relay.Config{To: to})
			if to == nil {
				assert.Equal(t, 3, descriptors(t)-before, "both ends of a pipe, and /dev/null, which is never waited for")
			}
			require.NoError(t, s.Finish(0))
		}
		assert.Equal(t, before, descriptors(t))
	})
}

// TestRefilledPipe checks that Finish passes on what is in the pipe, even if the pipe is never empty.
func TestRefilledPipe(t *testing.T) {
	for _, d := range destinations {
		for _, looked := range []bool{false, true} {
			w, finish := d.open(t, io.Discard)
			var refilled *os.File
			cfg := looking(relay.Config{To: w, Seen: func(n int) { refilled.Write(make([]byte, n)) }}, looked)
			s := stream(t, cfg)
			refilled = held(t, s)
			_, err := refilled.Write(make([]byte, 4096))
			require.NoError(t, err)
			s.Start()
			started := time.Now()
			require.NoError(t, s.Finish(timeout), d.name)
			assert.Less(t, time.Since(started), timeout/2)
			_, err = refilled.Write([]byte("x"))
			require.ErrorIs(t, err, syscall.EPIPE)
			finish()
		}
	}
}

// held returns a second writer of the stream's pipe, which stays after the child is gone.
func held(t *testing.T, s *relay.Stream) *os.File {
	t.Helper()
	fd, err := syscall.Dup(int(s.Child().Fd()))
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "held")
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}

func TestHost(t *testing.T) {
	t.Run("a host survives if the reader of its standard output closes it", func(t *testing.T) {
		r, w := blockingPipe(t)
		cmd := child(t, "unread", 0)
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = w, &stderr
		require.NoError(t, cmd.Start())
		require.NoError(t, w.Close())
		require.NoError(t, r.Close())
		require.NoError(t, cmd.Wait())
		assert.Equal(t, "alive: true", stderr.String())
	})
	t.Run("what a host without standard error writes there does not get to the destination", func(t *testing.T) {
		cmd := child(t, "no stderr", 0)
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Equal(t, "true", string(out))
	})
	size := racing.Rounds(256<<20, 10*gib)
	for name, to := range map[string]string{
		"without Look": "", "with Look": "look", "to a writer": "writer", "with Look to a slow reader": "look",
	} {
		t.Run("a host that relays for long, "+name+", needs less than 32 MiB", func(t *testing.T) {
			r, w := blockingPipe(t)
			cmd := child(t, "host", size)
			cmd.Env = append(cmd.Env, hostTo+"="+to)
			var stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = w, &stderr
			require.NoError(t, cmd.Start())
			require.NoError(t, w.Close())
			if strings.HasSuffix(name, "slow reader") {
				for range 1000 {
					_, err := io.ReadFull(r, make([]byte, 4096))
					require.NoError(t, err)
				}
			}
			read(r, io.Discard).wait(t)
			require.NoError(t, cmd.Wait())
			require.NoError(t, r.Close())
			more, err := strconv.Atoi(stderr.String())
			require.NoError(t, err)
			assert.Less(t, more, 32<<10, "KiB")
		})
	}
}

// hostTo names the environment variable that says how a host relays.
const hostTo = "RELAY_TEST_TO"

// host relays n bytes to its standard output, and prints to its standard error by how many KiB its peak memory grew.
func host(n int) {
	cfg := relay.Config{To: os.Stdout}
	switch os.Getenv(hostTo) {
	case "look":
		cfg.Look = func([]byte) {}
	case "writer":
		cfg.To = struct{ io.Writer }{os.Stdout}
	}
	before := status("VmRSS")
	if err := run("count", n, cfg); err != nil {
		fmt.Fprint(os.Stderr, err)
		return
	}
	fmt.Fprint(os.Stderr, status("VmHWM")-before)
}

// unread relays to its standard output, which nobody reads.
func unread(int) {
	err := run("flood", 0, relay.Config{To: os.Stdout})
	fmt.Fprint(os.Stderr, "alive: ", errors.Is(err, relay.ErrReaderGone))
}

// closeStderr prints whether another descriptor than that of the standard error is used for a destination.
func closeStderr(int) {
	_ = syscall.Close(2)
	_, err := relay.Open(relay.Config{To: os.Stdout})
	to, _ := os.Readlink("/proc/self/fd/1")
	stderr, _ := os.Readlink("/proc/self/fd/2")
	fmt.Print(err == nil && to != stderr)
}

func run(name string, n int, cfg relay.Config) error {
	s, err := relay.Open(cfg)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", strconv.Itoa(n))
	cmd.Env = append(os.Environ(), role+"="+name)
	cmd.Stdout = s.Child()
	if err := cmd.Start(); err != nil {
		return err
	}
	s.Start()
	_ = cmd.Wait() // SIGPIPE if nobody reads
	return s.Finish(timeout)
}

// status returns a field in KiB of /proc/self/status, -1 if there is none.
func status(name string) int {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return -1
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+":"); ok {
			n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			return n
		}
	}
	return -1
}

// TestKeep checks that a process which holds the pipe open can go on writing, and that nothing is left when it ends.
func TestKeep(t *testing.T) {
	// open returns a stream, and a writer that stays after the child is gone.
	open := func(t *testing.T, cfg relay.Config) (*relay.Stream, *os.File) {
		t.Helper()
		s := stream(t, cfg)
		background := held(t, s)
		s.Start()
		return s, background
	}
	more := make([]byte, 4<<20) // than a pipe holds
	t.Run("what it writes after Finish is dropped", func(t *testing.T) {
		var out bytes.Buffer
		s, background := open(t, relay.Config{To: &out})
		_, err := background.WriteString("before")
		require.NoError(t, err)
		s.Keep()
		require.NoError(t, s.Finish(time.Minute))
		_, err = background.Write(more)
		require.NoError(t, err)
		require.Equal(t, "before", out.String())
	})
	t.Run("also if the destination took too long", func(t *testing.T) {
		r, w := blockingPipe(t)
		defer r.Close()
		defer w.Close()
		s, background := open(t, relay.Config{To: w})
		go func() { _, _ = background.Write(more) }()
		eventuallyBlocked(t, s)
		s.Keep()
		require.ErrorIs(t, s.Finish(10*time.Millisecond), relay.ErrAbandoned)
		_, err := background.Write(more)
		require.NoError(t, err)
	})
	t.Run("an error of the destination is seen as ever", func(t *testing.T) {
		errFull := errors.New("full")
		s, background := open(t, relay.Config{To: writer(func([]byte) (int, error) { return 0, errFull })})
		_, err := background.WriteString("before")
		require.NoError(t, err)
		s.Keep()
		require.ErrorIs(t, s.Finish(time.Minute), errFull)
		_, err = background.WriteString("after")
		require.ErrorIs(t, err, syscall.EPIPE)
	})
}

func eventuallyBlocked(t *testing.T, s *relay.Stream) {
	t.Helper()
	require.Eventually(t, func() bool {
		since, blocked := s.Blocked()
		return blocked && time.Since(since) > 50*time.Millisecond
	}, 20*time.Second, time.Millisecond)
}

// TestIdle checks that streams of silent children hold no buffers, before and after an output.
func TestIdle(t *testing.T) {
	const streams = 200
	before := heap()
	var open []*relay.Stream
	seen := make(chan struct{}, streams)
	for range streams {
		s := stream(t, relay.Config{To: &bytes.Buffer{}, Seen: func(int) { seen <- struct{}{} }})
		writer := held(t, s)
		s.Start()
		_, err := writer.WriteString("x")
		require.NoError(t, err)
		open = append(open, s)
	}
	for range streams {
		<-seen
	}
	require.Eventually(t, func() bool { return heap() < before+streams*(64<<10) }, time.Minute, 10*time.Millisecond)
	for _, s := range open {
		require.NoError(t, s.Finish(time.Minute))
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // a pool keeps what it has for one collection
	var is runtime.MemStats
	runtime.ReadMemStats(&is)
	return is.HeapAlloc
}

// TestTerminal checks that all that was written to a pseudo-terminal is passed on, whether or not it is closed.
func TestTerminal(t *testing.T) {
	var want strings.Builder
	for n := range 50_000 {
		want.WriteString(strconv.Itoa(n) + "\n")
	}
	for _, closed := range []bool{true, false} {
		t.Run("closed at the end "+strconv.FormatBool(closed), func(t *testing.T) {
			for range racing.Rounds(4, 200) {
				output, line := openTerminal(t)
				var got bytes.Buffer
				s := stream(t, relay.Config{From: output, To: &got})
				s.Start()
				_, err := line.WriteString(want.String())
				require.NoError(t, err)
				if closed {
					require.NoError(t, line.Close())
				}
				require.NoError(t, s.Finish(time.Minute))
				require.Equal(t, want.String(), strings.ReplaceAll(got.String(), "\r\n", "\n"))
			}
		})
	}
	t.Run("one that is never started is closed", func(t *testing.T) {
		output, _ := openTerminal(t)
		s := stream(t, relay.Config{From: output})
		require.NoError(t, s.Finish(time.Minute))
		require.ErrorIs(t, output.Close(), os.ErrClosed)
	})
}

func openTerminal(t *testing.T) (output, line *os.File) {
	t.Helper()
	output, line, err := tty.Pair()
	require.NoError(t, err)
	t.Cleanup(func() { _ = line.Close() })
	return output, line
}
