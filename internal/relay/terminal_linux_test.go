package relay_test

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/relay"
	"github.com/seed62658d38/watchdog/internal/tty"
)

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
