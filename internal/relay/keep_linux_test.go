package relay_test

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/relay"
	"github.com/seed62658d38/watchdog/internal/tty"
)

// TestKeep checks that a process which holds the pipe open can go on writing, and that nothing is left when it ends.
func TestKeep(t *testing.T) {
	// open returns a stream, and a writer that stays after the child is gone.
	open := func(t *testing.T, cfg relay.Config) (*relay.Stream, *os.File) {
		t.Helper()
		s, err := relay.Open(cfg)
		require.NoError(t, err)
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
		s, err := relay.Open(relay.Config{To: &bytes.Buffer{}, Seen: func(int) { seen <- struct{}{} }})
		require.NoError(t, err)
		writer := held(t, s)
		s.Start()
		_, err = writer.WriteString("x")
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
				s, err := relay.Open(relay.Config{From: output, To: &got})
				require.NoError(t, err)
				s.Start()
				_, err = line.WriteString(want.String())
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
		s, err := relay.Open(relay.Config{From: output})
		require.NoError(t, err)
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
