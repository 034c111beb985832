package idle_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/internal/locked"
)

// within has a context end by its silence, until the end of the test.
func within(ctx context.Context, t *testing.T, limit time.Duration) (context.Context, *idle.Timer) {
	t.Helper()
	inner, timer := idle.WithLimit(ctx, limit)
	t.Cleanup(timer.Close)
	return inner, timer
}

// newTimer is that with a config.
func newTimer(t *testing.T, cfg idle.Config) (context.Context, *idle.Timer) {
	t.Helper()
	ctx, timer, err := idle.New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(timer.Close)
	return ctx, timer
}

func TestBusy(t *testing.T) {
	bubble(t, "a reader that is behind is asked once before each trip", func(t *testing.T) {
		const waiting = 3
		var asked atomic.Int64
		ctx, timer := newTimer(t, idle.Config{
			Limit: limit, Cancel: func(error) {}, Busy: func() bool { return asked.Add(1) <= waiting },
		})
		pass(limit)
		require.Zero(t, asked.Load())
		pass(1)
		require.EqualValues(t, 1, asked.Load())
		pass(2 * (limit + 1))
		require.EqualValues(t, 3, asked.Load())
		requireAlive(ctx, t, timer)
		pass(limit)
		requireAlive(ctx, t, timer)
		pass(1)
		require.EqualValues(t, 4, asked.Load())
		requireSilent(ctx, t, timer, limit+1, limit)
	})
	bubble(t, "true is a sign of life of the run around, too", func(t *testing.T) {
		wd := newRun(t, watchdog.Config{Budget: watchdog.Budget{Idle: limit + time.Second}})
		ctx, timer, err := idle.New(wd.Context(), idle.Config{Limit: limit, Busy: func() bool { return true }})
		require.NoError(t, err)
		defer timer.Close()
		pass(time.Hour)
		require.NoError(t, ctx.Err())
	})
	bubble(t, "one that hangs counts as false after its bound, and is not called again before it returns", func(t *testing.T) {
		log := captureLog(t)
		free := make(chan struct{})
		var asked atomic.Int64
		var told stops
		_, timer := newTimer(t, idle.Config{
			Limit:  limit,
			Busy:   func() bool { asked.Add(1); <-free; return true },
			Notify: told.add,
		})
		pass(limit + idle.BusyTimeout)
		require.Empty(t, told.all())
		pass(1)
		require.Equal(t, []time.Duration{limit + idle.BusyTimeout + 1}, told.all())
		timer.Alive()
		pass(limit + 1)
		require.Len(t, told.all(), 2)
		require.EqualValues(t, 1, asked.Load())
		require.Contains(t, log.String(), "counts a busy callback as not busy")
		close(free)
		synctest.Wait()
		timer.Alive()
		pass(limit + 1)
		require.EqualValues(t, 2, asked.Load())
		require.Len(t, told.all(), 2)
	})
	t.Run("a panic and the end of its goroutine count as false", func(t *testing.T) {
		for name, busy := range map[string]func() bool{
			"panicked": func() bool { panic("secret") },
			"ended":    func() bool { runtime.Goexit(); return true },
		} {
			synctest.Test(t, func(t *testing.T) {
				log := captureLog(t)
				ctx, timer := newTimer(t, idle.Config{Limit: limit, Busy: busy})
				pass(limit + 1)
				requireSilent(ctx, t, timer, limit+1, limit)
				require.Contains(t, log.String(), name)
				require.NotContains(t, log.String(), "secret")
			})
		}
	})
	bubble(t, "it may use the timer, and what it does counts", func(t *testing.T) {
		var timer atomic.Pointer[idle.Timer]
		ctx, made := newTimer(t, idle.Config{Limit: limit, Busy: func() bool {
			timer.Load().Widen(time.Second)()
			return false
		}})
		timer.Store(made)
		pass(time.Hour)
		requireAlive(ctx, t, made)
		made.Close()
	})
	bubble(t, "a sign of life while it is asked ends the silence", func(t *testing.T) {
		ctx, timer := newTimer(t, idle.Config{Limit: limit, Busy: func() bool {
			time.Sleep(idle.BusyTimeout / 2)
			return false
		}})
		pass(limit + 1)
		timer.Alive()
		pass(limit)
		requireAlive(ctx, t, timer)
		pass(1 + idle.BusyTimeout/2)
		requireSilent(ctx, t, timer, limit+1+idle.BusyTimeout/2, limit)
	})
}

func TestNotify(t *testing.T) {
	bubble(t, "once a stretch of silence, and again only after the next sign of life", func(t *testing.T) {
		var told stops
		ctx, timer := newTimer(t, idle.Config{Limit: limit, Notify: told.add})
		pass(time.Hour + limit/3)
		require.Equal(t, []time.Duration{limit + 1}, told.all())
		requireAlive(ctx, t, timer)
		timer.Alive()
		pass(limit)
		require.Len(t, told.all(), 1)
		pass(1)
		require.Equal(t, []time.Duration{limit + 1, limit + 1}, told.all())
		requireAlive(ctx, t, timer)
	})
	bubble(t, "a callback may use the timer, also Close", func(t *testing.T) {
		var timer atomic.Pointer[idle.Timer]
		var calls atomic.Int64
		ctx, made := newTimer(t, idle.Config{Limit: limit, Notify: func(*watchdog.Stop) {
			if calls.Add(1) == 3 {
				timer.Load().Close()
			}
			timer.Load().Alive()
		}})
		timer.Store(made)
		pass(time.Hour)
		require.EqualValues(t, 3, calls.Load())
		require.Equal(t, context.Canceled, context.Cause(ctx))
	})
	bubble(t, "one that panics or ends its goroutine is logged, and called again", func(t *testing.T) {
		log := captureLog(t)
		var calls atomic.Int64
		_, timer := newTimer(t, idle.Config{Limit: limit, Notify: func(*watchdog.Stop) {
			if calls.Add(1) == 1 {
				panic("secret")
			}
			runtime.Goexit()
		}})
		for range 2 {
			pass(limit + 1)
			timer.Alive()
		}
		require.EqualValues(t, 2, calls.Load())
		require.Contains(t, log.String(), "panicked")
		require.Contains(t, log.String(), "ended its goroutine")
		require.NotContains(t, log.String(), "secret")
	})
	bubble(t, "while one runs nothing is looked at, and Close does not wait", func(t *testing.T) {
		var calls atomic.Int64
		_, timer := newTimer(t, idle.Config{Limit: limit, Notify: func(*watchdog.Stop) {
			calls.Add(1)
			time.Sleep(time.Hour)
		}})
		pass(limit + 1)
		timer.Alive()
		pass(2 * limit)
		require.EqualValues(t, 1, calls.Load())
		timer.Close()
		pass(2 * time.Hour)
		require.EqualValues(t, 1, calls.Load())
	})
}

// TestHostInside has the host's own code, which a sign or a stop calls, use the timer.
func TestHostInside(t *testing.T) {
	useAll := func(timer *idle.Timer) {
		timer.Alive()
		timer.Widen(limit)()
		_, _ = timer.Stopped()
		require.NotNil(t, timer)
	}
	bubble(t, "a context of the host's own", func(t *testing.T) {
		var timer atomic.Pointer[idle.Timer]
		parent := valueContext{t.Context(), func() {
			if asked := timer.Swap(nil); asked != nil {
				useAll(asked)
			}
		}}
		ctx, made := within(parent, t, limit)
		timer.Store(made)
		pass(3 * limit)
		require.Error(t, ctx.Err())
	})
}

// valueContext calls the host for each value that is looked up.
type valueContext struct {
	context.Context //nolint:containedctx // a context of the host's own
	asked           func()
}

// Value implements context.Context.
func (c valueContext) Value(key any) any {
	c.asked()
	return c.Context.Value(key)
}

// stops are what Notify was called with.
type stops struct {
	mu   sync.Mutex
	told []time.Duration
}

func (s *stops) add(stop *watchdog.Stop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, stop.Elapsed)
}

func (s *stops) all() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

// captureLog has the default log write into what it returns.
func captureLog(t *testing.T) *locked.Buffer {
	t.Helper()
	before, log := slog.Default(), &locked.Buffer{}
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return log
}

func TestRecv(t *testing.T) {
	bubble(t, "what is received is a sign of life", func(t *testing.T) {
		ctx, timer := within(t.Context(), t, limit)
		messages := make(chan int)
		go func() {
			for i := range 5 {
				time.Sleep(limit)
				messages <- i
			}
		}()
		for i := range 5 {
			v, ok, err := idle.Recv(ctx, messages)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, i, v)
		}
		_, ok, err := idle.Recv(ctx, messages)
		require.False(t, ok)
		requireSilent(ctx, t, timer, limit+1, limit)
		require.Equal(t, context.Cause(ctx), err)
	})
	bubble(t, "a closed channel is not", func(t *testing.T) {
		ctx, _ := within(t.Context(), t, limit)
		messages := make(chan string)
		close(messages)
		pass(limit)
		v, ok, err := idle.Recv(ctx, messages)
		require.NoError(t, err)
		require.False(t, ok)
		require.Empty(t, v)
		pass(1)
		require.Error(t, ctx.Err())
	})
	t.Run("a context that is done leaves what waits in the channel", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		cancel(gone)
		messages := make(chan int, 1)
		messages <- 1
		_, ok, err := idle.Recv(ctx, messages)
		require.Equal(t, gone, err)
		require.False(t, ok)
		require.Len(t, messages, 1)
	})
	bubble(t, "without a timer it is a sign of the run, and without either a receive", func(t *testing.T) {
		wd := newRun(t, watchdog.Config{Budget: watchdog.Budget{Idle: limit}})
		messages := make(chan int, 1)
		for range 3 {
			pass(limit)
			messages <- 1
			_, ok, err := idle.Recv(wd.Context(), messages)
			require.NoError(t, err)
			require.True(t, ok)
		}
		messages <- 1
		v, ok, err := idle.Recv(t.Context(), messages)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, 1, v)
	})
}

func TestReader(t *testing.T) {
	t.Run("it reads what the reader does", func(t *testing.T) {
		ctx, _ := within(t.Context(), t, limit)
		content := strings.Repeat("0123456789", 1000)
		require.NoError(t, iotest.TestReader(idle.NewReader(ctx, strings.NewReader(content), nil), []byte(content)))
	})
	bubble(t, "each chunk is a sign of life, an empty one is not", func(t *testing.T) {
		ctx, timer := within(t.Context(), t, limit)
		r := idle.NewReader(ctx, iotest.OneByteReader(strings.NewReader("123")), nil)
		for range 3 {
			pass(limit)
			n, err := r.Read(make([]byte, 8))
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		pass(limit)
		_, err := r.Read(make([]byte, 8))
		require.Equal(t, io.EOF, err)
		pass(1)
		requireSilent(ctx, t, timer, limit+1, limit)
	})
	t.Run("without a timer and a run it is the reader", func(t *testing.T) {
		r := strings.NewReader("x")
		require.Same(t, r, idle.NewReader(t.Context(), r, nil))
		w := &bytes.Buffer{}
		require.Same(t, w, idle.NewWriter(t.Context(), w, nil))
	})
}

// wrongCount is a reader and a writer that count what cannot be.
type wrongCount int

// Read implements io.Reader.
func (c wrongCount) Read([]byte) (int, error) { return int(c), nil }

// Write implements io.Writer.
func (c wrongCount) Write([]byte) (int, error) { return int(c), nil }

// TestWrongCount protects that a count which cannot be is the caller's to find: it is handed on, is no sign of life,
// and chooses no chunk beyond the buffer.
func TestWrongCount(t *testing.T) {
	never := func(chunk []byte) bool {
		t.Errorf("alive is called with %d bytes", len(chunk))
		return true
	}
	for _, count := range []int{-1, 9} {
		for _, alive := range []func([]byte) bool{nil, never} {
			synctest.Test(t, func(t *testing.T) {
				ctx, timer := within(t.Context(), t, limit)
				pass(limit)
				n, err := idle.NewReader(ctx, wrongCount(count), alive).Read(make([]byte, 8, 16))
				require.NoError(t, err)
				require.Equal(t, count, n)
				n, err = idle.NewWriter(ctx, wrongCount(count), alive).Write(make([]byte, 8, 16))
				require.NoError(t, err)
				require.Equal(t, count, n)
				pass(1)
				requireSilent(ctx, t, timer, limit+1, limit)
			})
		}
	}
}

func TestWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, timer := within(t.Context(), t, limit)
		var written bytes.Buffer
		w := idle.NewWriter(ctx, &written, func(chunk []byte) bool { return len(chunk) > 1 })
		pass(limit)
		n, err := io.WriteString(w, "ab")
		require.NoError(t, err)
		require.Equal(t, 2, n)
		pass(limit)
		_, err = io.WriteString(w, "c")
		require.NoError(t, err)
		require.Equal(t, "abc", written.String())
		pass(1)
		requireSilent(ctx, t, timer, limit+1, limit)
		broken := errors.New("broken")
		_, err = idle.NewWriter(ctx, failingWriter{broken}, nil).Write([]byte("x"))
		require.ErrorIs(t, err, broken)
		require.ErrorIs(t, err, watchdog.IdleExceeded)
	})
}

type failingWriter struct{ err error }

// Write implements io.Writer.
func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestBody(t *testing.T) {
	bubble(t, "silence closes it, and the reader is told why", func(t *testing.T) {
		ctx, timer := within(t.Context(), t, limit)
		from, to := io.Pipe()
		body := idle.NewBody(ctx, from, nil)
		defer body.Close()
		go func() { _, _ = io.WriteString(to, "hello") }()
		text, err := io.ReadAll(body)
		require.Equal(t, "hello", string(text))
		requireSilent(ctx, t, timer, limit+1, limit)
		require.ErrorIs(t, err, context.Cause(ctx))
		require.ErrorIs(t, err, io.ErrClosedPipe)
	})
	bubble(t, "Close closes it once, and lets go of the context", func(t *testing.T) {
		ctx, timer := within(t.Context(), t, limit)
		b := &countedBody{Reader: strings.NewReader("x")}
		require.NoError(t, idle.NewBody(ctx, b, nil).Close())
		timer.Close()
		synctest.Wait()
		require.Equal(t, 1, b.closed)
	})
	bubble(t, "one that the silence has closed is not closed again", func(t *testing.T) {
		ctx, _ := within(t.Context(), t, limit)
		b := &countedBody{Reader: strings.NewReader("x")}
		body := idle.NewBody(ctx, b, nil)
		pass(2 * limit)
		require.Equal(t, 1, b.closed)
		require.NoError(t, body.Close())
		require.NoError(t, body.Close())
		require.Equal(t, 1, b.closed)
	})
	bubble(t, "an end is an end, also after the silence", func(t *testing.T) {
		ctx, _ := within(t.Context(), t, limit)
		body := idle.NewBody(ctx, http.NoBody, nil)
		pass(2 * limit)
		_, err := body.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
	})
}

type countedBody struct {
	io.Reader
	closed int
}

// Close implements io.Closer.
func (b *countedBody) Close() error {
	b.closed++
	return nil
}
