package idle_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
)

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
