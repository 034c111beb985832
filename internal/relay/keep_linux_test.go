package relay_test

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/relay"
)

var errFull = errors.New("full")

type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, errFull }

// TestKeep checks that a process which holds the pipe open can go on writing, and that nothing is left when it ends.
func TestKeep(t *testing.T) {
	// open returns a stream, and a writer that stays after the child is gone.
	open := func(t *testing.T, cfg relay.Config) (*relay.Stream, *os.File) {
		t.Helper()
		s, err := relay.Open(cfg)
		require.NoError(t, err)
		fd, err := syscall.Dup(int(s.Child().Fd()))
		require.NoError(t, err)
		s.Start()
		background := os.NewFile(uintptr(fd), "background")
		t.Cleanup(func() { _ = background.Close() })
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
		s, background := open(t, relay.Config{To: refusing{}})
		_, err := background.WriteString("before")
		require.NoError(t, err)
		s.Keep()
		require.ErrorIs(t, s.Finish(time.Minute), errFull)
		_, err = background.WriteString("after")
		require.ErrorIs(t, err, syscall.EPIPE)
	})
	t.Run("without Keep the pipe is closed", func(t *testing.T) {
		s, background := open(t, relay.Config{To: &bytes.Buffer{}})
		require.NoError(t, s.Finish(time.Minute))
		_, err := background.WriteString("after")
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
