package relay_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/relay"
)

const patience = 30 * time.Second

// A destination is a kind of file or writer that output goes to.
type destination struct {
	name string
	open func(tb testing.TB, to io.Writer) (w io.Writer, finish func()) // what is written to w arrives at to by the time finish returns
}

var destinations = []destination{
	{"a writer", func(_ testing.TB, to io.Writer) (io.Writer, func()) { return to, func() {} }},
	{"a pipe", openPipe},
	{"a file", openFile},
	{"a file that is appended to", appendFile},
}

// size is how much a test passes on.
func (d destination) size() int {
	switch isFile := strings.Contains(d.name, "file"); {
	case isFile:
		return 64<<20 + 5
	case long:
		return 10*gib + 5
	}
	return 256<<20 + 5
}

func openPipe(tb testing.TB, to io.Writer) (io.Writer, func()) {
	tb.Helper()
	r, w, err := os.Pipe()
	require.NoError(tb, err)
	return w, drained(tb, r, w, to)
}

func openFile(tb testing.TB, to io.Writer) (io.Writer, func()) {
	tb.Helper()
	return file(tb, os.O_CREATE|os.O_WRONLY, to)
}

func appendFile(tb testing.TB, to io.Writer) (io.Writer, func()) {
	tb.Helper()
	return file(tb, os.O_CREATE|os.O_WRONLY|os.O_APPEND, to)
}

func drained(tb testing.TB, r, w *os.File, to io.Writer) func() {
	tb.Helper()
	reading := read(r, to)
	return func() {
		require.NoError(tb, w.Close())
		reading.wait(tb)
		require.NoError(tb, r.Close())
	}
}

func file(tb testing.TB, flags int, to io.Writer) (io.Writer, func()) {
	tb.Helper()
	f, err := os.OpenFile(filepath.Join(tb.TempDir(), "output"), flags, 0o600)
	require.NoError(tb, err)
	return f, func() {
		require.NoError(tb, f.Close())
		written, err := os.Open(f.Name())
		require.NoError(tb, err)
		defer written.Close()
		_, err = io.Copy(to, written)
		require.NoError(tb, err)
	}
}

func TestStream(t *testing.T) {
	for _, d := range destinations {
		for _, looked := range []bool{false, true} {
			name := d.name
			if looked {
				name += ", looked at on the way"
			}
			t.Run("nothing is lost or reordered on the way to "+name, func(t *testing.T) {
				size := d.size()
				passes(t, d, looked, child(t, "count", size), size, &checker{})
			})
			t.Run("nor are small writes on the way to "+name, func(t *testing.T) {
				passes(t, d, looked, child(t, "dribble", 4<<20), 4<<20, &checker{})
			})
		}
	}
	t.Run("one line of many megabytes", func(t *testing.T) {
		size := 64 << 20
		if long {
			size = 1 << 30
		}
		for _, d := range destinations {
			passes(t, d, true, child(t, "line", size), size, &lineChecker{})
		}
	})
	t.Run("a command without output", func(t *testing.T) {
		for _, d := range destinations {
			passes(t, d, false, child(t, "count", 0), 0, &checker{})
		}
	})
	t.Run("no destination discards, seen all the same", func(t *testing.T) {
		passes(t, destination{open: func(testing.TB, io.Writer) (io.Writer, func()) { return nil, func() {} }}, false, child(t, "count", 32<<20), 32<<20, nil)
	})
	t.Run("and looked at", func(t *testing.T) {
		passes(t, destination{open: func(testing.TB, io.Writer) (io.Writer, func()) { return nil, func() {} }}, true, child(t, "count", 32<<20), 32<<20, nil)
	})
	t.Run("a host may close its file", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		s, err := relay.Open(relay.Config{To: w})
		require.NoError(t, err)
		require.NoError(t, w.Close())
		cmd := child(t, "count", 1<<20)
		cmd.Stdout = s.Child()
		require.NoError(t, cmd.Start())
		s.Start()
		var c checker
		reading := read(r, &c)
		require.NoError(t, cmd.Wait())
		require.NoError(t, s.Finish(patience))
		reading.wait(t)
		assert.Equal(t, 1<<20, c.at)
	})
	t.Run("a closed file is no destination", func(t *testing.T) {
		_, w, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, w.Close())
		_, err = relay.Open(relay.Config{To: w})
		require.ErrorIs(t, err, os.ErrClosed)
	})
}

// passes runs a child and checks that all of its output arrives, and was seen and, if asked for, looked at.
func passes(t *testing.T, d destination, looked bool, cmd *exec.Cmd, size int, to io.Writer) {
	t.Helper()
	w, finish := d.open(t, to)
	seen, look := 0, &checker{}
	cfg := relay.Config{To: w, Seen: func(n int) { seen += n }}
	_, counted := to.(*lineChecker)
	if looked {
		cfg.Look = func(p []byte) {
			if counted {
				look.at += len(p)
				return
			}
			look.Write(p)
		}
	}
	s := relayed(t, cmd, cfg)
	require.NoError(t, cmd.Wait())
	require.NoError(t, s.Finish(patience))
	<-s.Done()
	finish()
	assert.EqualValues(t, size, s.Bytes())
	assert.Equal(t, size, seen)
	if looked {
		require.NoError(t, look.err)
		assert.Equal(t, size, look.at)
	}
	switch to := to.(type) {
	case *checker:
		assert.Equal(t, checker{at: size}, *to)
	case *lineChecker:
		assert.Equal(t, lineChecker{at: size, newlines: 1}, *to)
	}
	_, blocked := s.Blocked()
	assert.False(t, blocked, "at the end nobody is waited for")
}

// A lineChecker checks what line writes.
type lineChecker struct{ at, newlines, others int }

func (c *lineChecker) Write(p []byte) (int, error) {
	newlines := bytes.Count(p, []byte{'\n'})
	c.at, c.newlines = c.at+len(p), c.newlines+newlines
	c.others += len(p) - newlines - bytes.Count(p, []byte{'x'})
	return len(p), nil
}

func TestStreamErrors(t *testing.T) {
	t.Run("after an error of the writer the child finds its output closed, and the error is returned", func(t *testing.T) {
		errFull := errors.New("disk full")
		w := writer(func(p []byte) (int, error) { return len(p) / 2, errFull })
		cmd := child(t, "flood", 0)
		s := relayed(t, cmd, relay.Config{To: w})
		requireSIGPIPE(t, cmd)
		err := s.Finish(patience)
		require.ErrorIs(t, err, errFull)
		require.NotErrorIs(t, err, relay.ErrReaderGone)
		assert.Equal(t, err, s.Finish(0), "again")
	})
	t.Run("a write that was short is an error", func(t *testing.T) {
		cmd := child(t, "flood", 0)
		s := relayed(t, cmd, relay.Config{To: writer(func(p []byte) (int, error) { return len(p) - 1, nil })})
		requireSIGPIPE(t, cmd)
		require.ErrorIs(t, s.Finish(patience), io.ErrShortWrite)
	})
	t.Run("a closed io.Pipe is a reader that is gone", func(t *testing.T) {
		r, w := io.Pipe()
		require.NoError(t, r.Close())
		cmd := child(t, "flood", 0)
		s := relayed(t, cmd, relay.Config{To: w})
		requireSIGPIPE(t, cmd)
		require.ErrorIs(t, s.Finish(patience), relay.ErrReaderGone)
	})
	for _, looked := range []bool{false, true} {
		t.Run("a reader that closes its pipe has the child end by SIGPIPE, as it would without us", func(t *testing.T) {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			defer w.Close()
			cmd := child(t, "flood", 0)
			cfg := relay.Config{To: w}
			if looked {
				cfg.Look = func([]byte) {}
			}
			s := relayed(t, cmd, cfg)
			_, err = io.ReadFull(r, make([]byte, 1<<20))
			require.NoError(t, err)
			require.NoError(t, r.Close())
			requireSIGPIPE(t, cmd)
			require.ErrorIs(t, s.Finish(patience), relay.ErrReaderGone)
		})
	}
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
	require.Equal(t, syscall.SIGPIPE, exit.Sys().(syscall.WaitStatus).Signal())
}

func TestFinish(t *testing.T) {
	t.Run("a background process that holds the pipe is not waited for", func(t *testing.T) {
		for _, d := range destinations {
			stdin, holder, err := os.Pipe() // the background process ends when holder is closed
			require.NoError(t, err)
			defer stdin.Close()
			defer holder.Close()
			var got bytes.Buffer
			w, finish := d.open(t, &got)
			cmd := child(t, "background", 0)
			cmd.Stdin = stdin
			s := relayed(t, cmd, relay.Config{To: w})
			require.NoError(t, cmd.Wait())
			started := time.Now()
			require.NoError(t, s.Finish(patience))
			assert.Less(t, time.Since(started), patience/2)
			finish()
			assert.Equal(t, "left behind\n", got.String(), d.name)
		}
	})
	t.Run("nor one that never stops writing, faster than its reader reads: it ends", func(t *testing.T) {
		for _, d := range destinations {
			alive, ours, err := os.Pipe() // its other end is in the background process as well
			require.NoError(t, err)
			w, finish := d.open(t, writer(slow))
			cmd := child(t, "flooding", 0)
			cmd.Stderr = ours
			s := relayed(t, cmd, relay.Config{To: w, Look: func(p []byte) { slow(p) }})
			require.NoError(t, ours.Close())
			require.NoError(t, cmd.Wait())
			eventually(t, func() bool { return s.Bytes() > 4<<20 }, "it writes")
			started := time.Now()
			require.NoError(t, s.Finish(patience))
			assert.Less(t, time.Since(started), patience/2)
			_, err = io.Copy(io.Discard, alive)
			require.NoError(t, err, "it is gone")
			finish()
			require.NoError(t, alive.Close())
		}
	})
	t.Run("all that a child wrote before its end is passed on by a reader that is slow", func(t *testing.T) {
		for _, looked := range []bool{false, true} {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			cmd := child(t, "count", 600<<10)
			cfg := relay.Config{To: w}
			if looked {
				cfg.Look = func([]byte) {}
			}
			s := relayed(t, cmd, cfg)
			require.NoError(t, cmd.Wait(), "it fits into the pipes")
			finished := make(chan error)
			go func() { finished <- s.Finish(patience) }()
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
	for _, looked := range []bool{false, true} {
		t.Run("a pipe that nobody reads is given up, and the goroutine ends", func(t *testing.T) {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			defer r.Close()
			defer w.Close()
			cfg := relay.Config{To: w}
			if looked {
				cfg.Look = func([]byte) {}
			}
			cmd := child(t, "count", 600<<10)
			s := relayed(t, cmd, cfg)
			require.NoError(t, cmd.Wait())
			err = s.Finish(50 * time.Millisecond)
			require.ErrorIs(t, err, relay.ErrAbandoned)
			require.ErrorContains(t, err, "50ms")
			require.NotContains(t, err.Error(), "left behind")
			<-s.Done()
		})
	}
	t.Run("a Write that does not return is left behind, and no other begins", func(t *testing.T) {
		release, writes := make(chan struct{}), atomic.Int32{}
		w := writer(func(p []byte) (int, error) {
			writes.Add(1)
			<-release
			return len(p), nil
		})
		cmd := child(t, "count", 600<<10)
		s := relayed(t, cmd, relay.Config{To: w})
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
	t.Run("and its child's background process finds the pipe closed at once", func(t *testing.T) {
		alive, ours, err := os.Pipe()
		require.NoError(t, err)
		defer alive.Close()
		release := make(chan struct{})
		cmd := child(t, "flooding", 0)
		cmd.Stderr = ours
		s := relayed(t, cmd, relay.Config{To: writer(func(p []byte) (int, error) { <-release; return len(p), nil })})
		require.NoError(t, ours.Close())
		require.NoError(t, cmd.Wait())
		eventually(t, func() bool { _, blocked := s.Blocked(); return blocked }, "blocked")
		require.ErrorIs(t, s.Finish(0), relay.ErrAbandoned)
		_, err = io.Copy(io.Discard, alive)
		require.NoError(t, err)
		close(release)
		<-s.Done()
	})
	t.Run("a stream whose child never started", func(t *testing.T) {
		s, err := relay.Open(relay.Config{})
		require.NoError(t, err)
		require.NoError(t, s.Finish(patience))
		<-s.Done()
		_, err = s.Child().Write([]byte("x"))
		require.ErrorIs(t, err, os.ErrClosed)
	})
}

func TestBlocked(t *testing.T) {
	t.Run("a pipe that is not read blocks the stream and the child, since when it is full", func(t *testing.T) {
		begin := time.Now()
		r, w, err := os.Pipe()
		require.NoError(t, err)
		size := 64 << 20
		cmd := child(t, "count", size)
		s := relayed(t, cmd, relay.Config{To: w})
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
		require.NoError(t, cmd.Wait())
		require.NoError(t, s.Finish(patience))
		require.NoError(t, w.Close())
		reading.wait(t)
		assert.Equal(t, checker{at: size}, c)
		require.NoError(t, r.Close())
	})
	t.Run("so does a writer", func(t *testing.T) {
		release := make(chan struct{})
		cmd := child(t, "count", 100)
		s := relayed(t, cmd, relay.Config{To: writer(func(p []byte) (int, error) { <-release; return len(p), nil })})
		eventually(t, func() bool { _, blocked := s.Blocked(); return blocked }, "blocked")
		close(release)
		require.NoError(t, cmd.Wait())
		require.NoError(t, s.Finish(patience))
	})
	t.Run("a child that is silent is no reader that is slow", func(t *testing.T) {
		stdin, holder, err := os.Pipe()
		require.NoError(t, err)
		defer stdin.Close()
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		defer w.Close()
		cmd := child(t, "background", 0)
		cmd.Stdin = stdin
		s := relayed(t, cmd, relay.Config{To: w})
		_, err = io.ReadFull(r, make([]byte, len("left behind\n")))
		require.NoError(t, err)
		eventually(t, func() bool { return s.Bytes() > 0 }, "counted")
		_, blocked := s.Blocked()
		assert.False(t, blocked)
		require.NoError(t, holder.Close())
		require.NoError(t, cmd.Wait())
		require.NoError(t, s.Finish(patience))
	})
}
