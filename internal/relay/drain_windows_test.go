package relay_test

import (
	"bytes"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/relay"
)

// other is the end of the stream's child in another process, which has it open for longer.
func other(t *testing.T, s *relay.Stream) *os.File {
	t.Helper()
	self, err := syscall.GetCurrentProcess()
	require.NoError(t, err)
	var handle syscall.Handle
	require.NoError(t, syscall.DuplicateHandle(self, syscall.Handle(s.Child().Fd()), self, &handle, 0, false,
		syscall.DUPLICATE_SAME_ACCESS))
	return os.NewFile(uintptr(handle), "other")
}

// TestDrain checks that a stream ends with what was written before, whoever else has the pipe open, and that who is to
// be kept can go on writing.
func TestDrain(t *testing.T) {
	for name, keep := range map[string]bool{"closed": false, "kept": true} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			s, err := relay.Open(relay.Config{To: &got})
			require.NoError(t, err)
			writer := other(t, s)
			defer writer.Close()
			_, err = s.Child().WriteString("before")
			require.NoError(t, err)
			s.Start()
			if keep {
				s.Keep()
			}
			s.Drain()
			select {
			case <-s.Done():
			case <-time.After(20 * time.Second):
				require.FailNow(t, "a reader waits for a process that lives on")
			}
			require.NoError(t, s.Finish(time.Second))
			require.Equal(t, "before", got.String())
			_, err = writer.Write(make([]byte, 1<<20)) // more than the pipe holds
			if keep {
				require.NoError(t, err)
			} else {
				require.Error(t, err)
			}
		})
	}
}
