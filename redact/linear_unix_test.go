//go:build unix

package redact_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLinear expects twice the text to take no more than a few times as long, for texts made of names alone.
func TestLinear(t *testing.T) {
	if racing {
		t.Skip("runs in the plain tests only: it measures one goroutine")
	}
	r := newRedactor(t)
	for _, part := range []string{
		"pass" + "word=", "to" + "ken=", "a://b:c", "a://", "authorization:", "cookie:a", "Bearer ", "-p' ", "mysql -p",
		"<token>", "login x pass" + "word ", `"to` + `ken":"`, "--to" + "ken ", "API_KEY=a ", `\"`, "cookie:a=b;",
	} {
		small, large := strings.Repeat(part, 8<<10/len(part)), strings.Repeat(part, 32<<10/len(part))
		r.Bytes([]byte(small))
		took := func(text string) time.Duration {
			all := make([]time.Duration, 3)
			for i := range all {
				start := processorTime(t)
				r.Bytes([]byte(text))
				all[i] = processorTime(t) - start
			}
			return slices.Min(all)
		}
		short, tall := took(small), took(large)
		t.Logf("%q: %v, %v", part, short, tall)
		require.Less(t, tall, 16*short+50*time.Millisecond, part)
	}
}

// processorTime is how long this process has had a processor: on a busy machine a clock shows many times as much.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
