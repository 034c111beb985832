package probe_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall/internal/probe"
)

func TestRead(t *testing.T) {
	saw := []byte(`{"class":"terminal"}`)
	for _, c := range []struct {
		name    string
		outcome probe.Outcome
		anyExit bool
		want    probe.Blind
	}{
		{"exit status 0", probe.Outcome{Output: saw}, false, ""},
		{"exit status 1", probe.Outcome{ExitStatus: 1, Output: saw}, false, probe.BlindExit},
		{"exit status 1 with anyExit", probe.Outcome{ExitStatus: 1, Output: saw}, true, ""},
		{"a signal", probe.Outcome{ExitStatus: -1, Output: saw}, false, probe.BlindExit},
		{"a signal with anyExit", probe.Outcome{ExitStatus: -1, Output: saw}, true, probe.BlindExit},
		{"a timeout after the output", probe.Outcome{TimedOut: true, ExitStatus: -1, Output: saw}, true, probe.BlindTimeout},
		{"no start", probe.Outcome{StartErr: errors.ErrUnsupported, Output: saw}, true, probe.BlindStart},
		{"an output that is no object", probe.Outcome{Output: []byte(canary)}, false, probe.BlindOutput},
		{"one with anyExit", probe.Outcome{ExitStatus: 2, Output: []byte(canary)}, true, probe.BlindOutput},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen, blind := probe.Read(c.outcome, c.anyExit)
			require.Equal(t, c.want, blind)
			if blind != "" {
				require.Zero(t, seen)
				return
			}
			require.Equal(t, digest(t, string(saw)), seen.Digest)
		})
	}
}

// TestCapture checks that a Capture keeps as much as the limit allows and one byte more, so that an output that was cut
// is too long, and not half an object.
func TestCapture(t *testing.T) {
	for size, kept := range map[int]int{0: 0, 1000: 1000, 64 << 10: 64 << 10, 64<<10 + 1: 64<<10 + 1, 1 << 20: 64<<10 + 1} {
		var capture probe.Capture
		text := strings.Repeat("0123456789", size/10+1)[:size]
		for rest := text; len(rest) > 0; {
			n, err := capture.Write([]byte(rest[:min(1000, len(rest))]))
			require.NoError(t, err)
			rest = rest[n:]
		}
		given := capture.Bytes()
		require.Equal(t, text[:kept], string(given))
		clear(given)
		require.Equal(t, text[:kept], string(capture.Bytes()), "Bytes returns a copy")
	}
}

// TestCaptureConcurrent reads a Capture while it is written.
func TestCaptureConcurrent(t *testing.T) {
	var capture probe.Capture
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				_, _ = capture.Write([]byte(strings.Repeat("x", 50)))
				capture.Bytes()
			}
		})
	}
	wg.Wait()
	require.Len(t, capture.Bytes(), 64<<10+1)
}
