package relay_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/relay"
)

const timeout = 30 * time.Second

func TestStream(t *testing.T) {
	for _, d := range destinations {
		for _, looked := range []bool{false, true} {
			name := d.name
			if looked {
				name += " with Look"
			}
			t.Run("large writes arrive complete and in order at "+name, func(t *testing.T) {
				size := d.size()
				passes(t, d, looked, child(t, "count", size), size, &checker{})
			})
			t.Run("small writes arrive complete and in order at "+name, func(t *testing.T) {
				passes(t, d, looked, child(t, "smallWrites", 4<<20), 4<<20, &checker{})
			})
		}
	}
	t.Run("a command without output", func(t *testing.T) {
		for _, d := range destinations {
			passes(t, d, false, child(t, "count", 0), 0, &checker{})
		}
	})
	discard := destination{open: func(testing.TB, io.Writer) (io.Writer, func()) { return nil, func() {} }}
	t.Run("a nil destination discards, and Seen and Look are called", func(t *testing.T) {
		for _, looked := range []bool{false, true} {
			passes(t, discard, looked, child(t, "count", 32<<20), 32<<20, nil)
		}
	})
	t.Run("a host may close its file", func(t *testing.T) {
		r, w := pipe(t)
		defer r.Close()
		s := stream(t, relay.Config{To: w})
		require.NoError(t, w.Close())
		cmd := child(t, "count", 1<<20)
		cmd.Stdout = s.Child()
		require.NoError(t, cmd.Start())
		s.Start()
		var c checker
		reading := read(r, &c)
		finishes(t, cmd, s)
		reading.wait(t)
		assert.Equal(t, 1<<20, c.at)
	})
	t.Run("a closed file as the destination is an error", func(t *testing.T) {
		_, w := pipe(t)
		require.NoError(t, w.Close())
		_, err := relay.Open(relay.Config{To: w})
		require.ErrorIs(t, err, os.ErrClosed)
	})
}

// passes runs a child and checks that all its output arrives, that Seen counts it, and that Look, if used, gets it.
func passes(t *testing.T, d destination, looked bool, cmd *exec.Cmd, size int, to io.Writer) {
	t.Helper()
	w, finish := d.open(t, to)
	seen, look := 0, &checker{}
	cfg := relay.Config{To: w, Seen: func(n int) { seen += n }}
	if looked {
		cfg.Look = func(p []byte) { look.Write(p) }
	}
	s := startRelayed(t, cmd, cfg)
	finishes(t, cmd, s)
	<-s.Done()
	finish()
	assert.EqualValues(t, size, s.Bytes())
	assert.Equal(t, size, seen)
	if looked {
		require.NoError(t, look.err)
		assert.Equal(t, size, look.at)
	}
	if to, ok := to.(*checker); ok {
		assert.Equal(t, checker{at: size}, *to)
	}
	_, blocked := s.Blocked()
	assert.False(t, blocked, "not blocked at the end")
}

func TestStreamErrors(t *testing.T) {
	errFull := errors.New("disk full")
	closed, unread := io.Pipe()
	require.NoError(t, closed.Close())
	for name, c := range map[string]struct {
		to io.Writer
		is error
	}{
		"an error of the writer":          {writer(func(p []byte) (int, error) { return len(p) / 2, errFull }), errFull},
		"a short write":                   {writer(func(p []byte) (int, error) { return len(p) - 1, nil }), io.ErrShortWrite},
		"an io.Pipe with a closed reader": {unread, relay.ErrReaderGone},
	} {
		t.Run(name+" closes the child's output, and Finish returns the error", func(t *testing.T) {
			cmd := child(t, "flood", 0)
			s := startRelayed(t, cmd, relay.Config{To: c.to})
			requireSIGPIPE(t, cmd)
			err := s.Finish(timeout)
			require.ErrorIs(t, err, c.is)
			require.Equal(t, c.to == unread, errors.Is(err, relay.ErrReaderGone))
			assert.Equal(t, err, s.Finish(0), "again")
		})
	}
	for _, open := range pipes {
		for _, looked := range []bool{false, true} {
			t.Run("a reader that closes its pipe ends the child by SIGPIPE, as it would without a relay", func(t *testing.T) {
				r, w := open(t)
				defer w.Close()
				cmd := child(t, "flood", 0)
				s := startRelayed(t, cmd, looking(relay.Config{To: w}, looked))
				_, err := io.ReadFull(r, make([]byte, 1<<20))
				require.NoError(t, err)
				require.NoError(t, r.Close())
				requireSIGPIPE(t, cmd)
				require.ErrorIs(t, s.Finish(timeout), relay.ErrReaderGone)
			})
		}
	}
}

// pipes are the ways to connect a stream with a reader, by what they open.
var pipes = []func(tb testing.TB) (r, w *os.File){pipe}

func pipe(tb testing.TB) (r, w *os.File) {
	tb.Helper()
	r, w, err := os.Pipe()
	require.NoError(tb, err)
	return r, w
}

// looking adds a Look that does nothing.
func looking(cfg relay.Config, looked bool) relay.Config {
	if looked {
		cfg.Look = func([]byte) {}
	}
	return cfg
}

// slow is slower than a process that writes zeros.
func slow(p []byte) (int, error) {
	for range 4 {
		sha256.Sum256(p)
	}
	return len(p), nil
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func requireSIGPIPE(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	if runtime.GOOS == "windows" {
		return // it has no signals: the child fails by the error of its write
	}
	require.Equal(t, syscall.SIGPIPE, exit.Sys().(syscall.WaitStatus).Signal())
}

func TestFinish(t *testing.T) {
	t.Run("Finish does not wait for a background process that holds the pipe", func(t *testing.T) {
		for _, d := range destinations {
			stdin, holder := pipe(t) // the background process ends when holder is closed
			defer stdin.Close()
			defer holder.Close()
			var got bytes.Buffer
			w, finish := d.open(t, &got)
			cmd := child(t, "background", 0)
			cmd.Stdin = stdin
			s := startRelayed(t, cmd, relay.Config{To: w})
			require.NoError(t, cmd.Wait())
			started := time.Now()
			require.NoError(t, s.Finish(timeout))
			assert.Less(t, time.Since(started), timeout/2)
			finish()
			assert.Equal(t, "left behind\n", got.String(), d.name)
		}
	})
	t.Run("Finish does not wait for a background process that writes faster than the reader reads", func(t *testing.T) {
		for _, d := range destinations {
			alive, ours := pipe(t) // the background process has its other end
			w, finish := d.open(t, writer(slow))
			cmd := child(t, "backgroundFlood", 0)
			cmd.Stderr = ours
			s := startRelayed(t, cmd, relay.Config{To: w, Look: func(p []byte) { slow(p) }})
			require.NoError(t, ours.Close())
			require.NoError(t, cmd.Wait())
			eventually(t, func() bool { return s.Bytes() > 4<<20 }, "it writes")
			started := time.Now()
			require.NoError(t, s.Finish(timeout))
			assert.Less(t, time.Since(started), timeout/2)
			_, err := io.Copy(io.Discard, alive)
			require.NoError(t, err, "it has exited")
			finish()
			require.NoError(t, alive.Close())
		}
	})
	t.Run("a slow reader gets all that the child wrote", func(t *testing.T) {
		for _, looked := range []bool{false, true} {
			r, w := pipe(t)
			cmd := child(t, "count", 600<<10)
			s := startRelayed(t, cmd, looking(relay.Config{To: w}, looked))
			require.NoError(t, cmd.Wait(), "it fits into the pipes")
			finished := make(chan error)
			go func() { finished <- s.Finish(timeout) }()
			eventually(t, func() bool { _, blocked := s.Blocked(); return blocked }, "blocked")
			var c checker
			reading := read(r, &c)
			require.NoError(t, <-finished)
			require.NoError(t, w.Close())
			reading.wait(t)
			assert.Equal(t, checker{at: 600 << 10}, c)
			require.NoError(t, r.Close())
		}
	})
	for _, open := range pipes {
		for _, looked := range []bool{false, true} {
			t.Run("a pipe that nobody reads is abandoned, and the goroutine ends", func(t *testing.T) {
				r, w := open(t)
				defer r.Close()
				defer w.Close()
				cmd := child(t, "count", 600<<10)
				s := startRelayed(t, cmd, looking(relay.Config{To: w}, looked))
				require.NoError(t, cmd.Wait())
				err := s.Finish(50 * time.Millisecond)
				require.ErrorIs(t, err, relay.ErrAbandoned)
				require.ErrorContains(t, err, "50ms")
				require.NotContains(t, err.Error(), "left behind")
				<-s.Done()
			})
		}
	}
	t.Run("a Write that does not return is left behind, and no new one begins", func(t *testing.T) {
		release, writes := make(chan struct{}), atomic.Int32{}
		w := writer(func(p []byte) (int, error) {
			writes.Add(1)
			<-release
			return len(p), nil
		})
		cmd := child(t, "count", 600<<10)
		s := startRelayed(t, cmd, relay.Config{To: w})
		require.NoError(t, cmd.Wait())
		err := s.Finish(50 * time.Millisecond)
		require.ErrorIs(t, err, relay.ErrAbandoned)
		require.ErrorContains(t, err, "left behind")
		select {
		case <-s.Done():
			require.Fail(t, "done, with a Write that has not returned")
		default:
		}
		close(release)
		<-s.Done()
		assert.EqualValues(t, 1, writes.Load())
	})
	t.Run("with such a Write, a background process finds the pipe closed at once", func(t *testing.T) {
		alive, ours := pipe(t)
		defer alive.Close()
		release := make(chan struct{})
		cmd := child(t, "backgroundFlood", 0)
		cmd.Stderr = ours
		s := startRelayed(t, cmd, relay.Config{To: writer(func(p []byte) (int, error) { <-release; return len(p), nil })})
		require.NoError(t, ours.Close())
		require.NoError(t, cmd.Wait())
		eventually(t, func() bool { _, blocked := s.Blocked(); return blocked }, "blocked")
		require.ErrorIs(t, s.Finish(0), relay.ErrAbandoned)
		_, err := io.Copy(io.Discard, alive)
		require.NoError(t, err)
		close(release)
		<-s.Done()
	})
	t.Run("a stream that has had no time yet to write loses nothing", func(t *testing.T) {
		var out bytes.Buffer
		read, cmd := make(chan struct{}), child(t, "count", 100)
		s := startRelayed(t, cmd, relay.Config{To: &out, Seen: func(int) { <-read }})
		require.NoError(t, cmd.Wait())
		time.AfterFunc(100*time.Millisecond, func() { close(read) })
		require.NoError(t, s.Finish(0))
		assert.Equal(t, 100, out.Len())
	})
	t.Run("a stream whose child never started", func(t *testing.T) {
		s := stream(t, relay.Config{})
		require.NoError(t, s.Finish(timeout))
		<-s.Done()
		_, err := s.Child().Write([]byte("x"))
		require.ErrorIs(t, err, os.ErrClosed)
	})
}

func TestBlocked(t *testing.T) {
	t.Run("a pipe that nobody reads blocks the stream and the child", func(t *testing.T) {
		begin := time.Now()
		r, w := pipe(t)
		size := 64 << 20
		cmd := child(t, "count", size)
		s := startRelayed(t, cmd, relay.Config{To: w})
		var since time.Time
		eventually(t, func() (blocked bool) { since, blocked = s.Blocked(); return blocked }, "blocked")
		assert.WithinRange(t, since, begin, time.Now())
		taken := s.Bytes()
		eventually(t, func() bool { return time.Since(since) > 100*time.Millisecond }, "time passes")
		again, blocked := s.Blocked()
		assert.True(t, blocked)
		assert.Equal(t, since, again)
		assert.Equal(t, taken, s.Bytes())
		var c checker
		reading := read(r, &c)
		finishes(t, cmd, s)
		require.NoError(t, w.Close())
		reading.wait(t)
		assert.Equal(t, checker{at: size}, c)
		require.NoError(t, r.Close())
	})
	t.Run("a silent child does not count as a slow reader", func(t *testing.T) {
		stdin, holder := pipe(t)
		defer stdin.Close()
		r, w := pipe(t)
		defer r.Close()
		defer w.Close()
		cmd := child(t, "background", 0)
		cmd.Stdin = stdin
		s := startRelayed(t, cmd, relay.Config{To: w})
		_, err := io.ReadFull(r, make([]byte, len("left behind\n")))
		require.NoError(t, err)
		eventually(t, func() bool { return s.Bytes() > 0 }, "counted")
		_, blocked := s.Blocked()
		assert.False(t, blocked)
		require.NoError(t, holder.Close())
		finishes(t, cmd, s)
	})
}

func TestWatchFile(t *testing.T) {
	open := func(t *testing.T) (*os.File, *relay.File) {
		t.Helper()
		f, err := os.Create(filepath.Join(t.TempDir(), "log"))
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		watched, ok := relay.WatchFile(f)
		require.True(t, ok)
		t.Cleanup(func() { require.NoError(t, watched.Close()) })
		return f, watched
	}
	requireUnchanged := func(t *testing.T, watched *relay.File) {
		t.Helper()
		at, changed := watched.Changed()
		require.False(t, changed)
		require.Zero(t, at)
	}
	set := func(t *testing.T, f *os.File, at time.Time) {
		t.Helper()
		require.NoError(t, os.Chtimes(f.Name(), at, at))
	}
	t.Run("a file that grew has changed, once", func(t *testing.T) {
		f, watched := open(t)
		requireUnchanged(t, watched)
		begin := time.Now()
		_, err := f.WriteString("x")
		require.NoError(t, err)
		at, changed := watched.Changed()
		assert.True(t, changed)
		assert.WithinRange(t, at, begin, time.Now())
		requireUnchanged(t, watched)
	})
	t.Run("the change has the file's time if that is between the calls", func(t *testing.T) {
		f, watched := open(t)
		written := time.Now()
		set(t, f, written)
		eventually(t, func() bool { return time.Since(written) > 20*time.Millisecond }, "time passes")
		at, changed := watched.Changed()
		assert.True(t, changed)
		assert.WithinDuration(t, written, at, time.Millisecond)
	})
	t.Run("the change has the current time if the file's is not between the calls", func(t *testing.T) {
		f, watched := open(t)
		for _, off := range []time.Duration{-time.Hour, time.Hour} {
			begin := time.Now()
			set(t, f, begin.Add(off))
			at, changed := watched.Changed()
			assert.True(t, changed)
			assert.WithinRange(t, at, begin, time.Now())
		}
	})
	t.Run("a truncated file has changed", func(t *testing.T) {
		f, watched := open(t)
		_, err := f.WriteString("xx")
		require.NoError(t, err)
		_, changed := watched.Changed()
		require.True(t, changed)
		require.NoError(t, f.Truncate(1))
		_, changed = watched.Changed()
		assert.True(t, changed)
	})
	t.Run("a file that grew within a tick of the file system's clock has changed", func(t *testing.T) {
		f, watched := open(t)
		tick := time.Now().Add(-time.Hour)
		set(t, f, tick)
		_, changed := watched.Changed()
		require.True(t, changed)
		_, err := f.WriteString("x")
		require.NoError(t, err)
		set(t, f, tick)
		_, changed = watched.Changed()
		assert.True(t, changed)
	})
	t.Run("a host may close its file", func(t *testing.T) {
		f, watched := open(t)
		require.NoError(t, f.Close())
		require.NoError(t, os.WriteFile(f.Name(), []byte("x"), 0o600))
		_, changed := watched.Changed()
		assert.True(t, changed)
	})
	t.Run("only a regular file is watched", func(t *testing.T) {
		r, w := pipe(t)
		defer w.Close()
		null, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer null.Close()
		dir, err := os.Open(t.TempDir())
		require.NoError(t, err)
		defer dir.Close()
		require.NoError(t, r.Close())
		for _, f := range []*os.File{nil, r, w, null, dir} {
			_, ok := relay.WatchFile(f)
			assert.False(t, ok)
		}
	})
}
