package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/record"
)

// follow starts watchdog tail.
func follow(t *testing.T, args ...string) *live {
	t.Helper()
	return begin(t, programCmd(t, nil, append([]string{"tail"}, args...)...))
}

// interrupt ends it as Ctrl-C does, and returns its exit status.
func (p *live) interrupt() int {
	p.Helper()
	p.signal(syscall.SIGINT)
	return p.end().status
}

// interrupted is an event of a run that was so long ago.
func interrupted(run, signal string, ago time.Duration) watchdog.Event {
	at := time.Now().Add(-ago).UTC().Truncate(time.Microsecond)
	return watchdog.Event{
		ID: record.NewRunID(), AggregateType: watchdog.AggregateType, AggregateID: run, Type: watchdog.EventInterrupt,
		Payload:   record.JSON(record.Interrupt{Signal: signal, SessionStartedAt: record.Stamp(at), InterruptedAt: record.Stamp(at)}),
		Timestamp: at,
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	eachURL(t, racing.Long, func(t *testing.T, url string) {
		store := openStore(t, url)
		defer func() { require.NoError(t, store.Close()) }()
		for i := range 12 {
			require.NoError(t, store.Append(t.Context(), interrupted("s-1", fmt.Sprintf("old-%d", i), time.Duration(60-i)*time.Minute)))
		}
		t.Run("of one run the last ten come first, and then each new one once", func(t *testing.T) {
			f := follow(t, "--store", url, "s-1")
			f.until("interrupted by old-11")
			assert.Len(t, f.seen, 10)
			require.NoError(t, store.Append(t.Context(), interrupted("s-2", "other", 0), interrupted("s-1", "new \u202e", 0)))
			f.until(`interrupted by new \u202e`)
			require.NoError(t, store.Append(t.Context(), interrupted("s-1", "newest", 0)))
			f.until("newest")
			assert.Equal(t, 130, f.interrupt())
			assert.Len(t, f.seen, 12)
			assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z interrupted by old-2$`, f.seen[0])
		})
		t.Run("of all runs the new ones come with their run", func(t *testing.T) {
			f := follow(t, "--store", url)
			ticking, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan struct{})
			go func() { // until it follows
				defer close(ended)
				for ticking.Err() == nil {
					_ = store.Append(ticking, interrupted("s-\u202e3", "again", 0))
					time.Sleep(50 * time.Millisecond)
				}
			}()
			f.until(`Z s-\u202e3 interrupted by again`)
			cancel()
			<-ended
			assert.Equal(t, 130, f.interrupt())
		})
		t.Run("-n and --since say how many of before", func(t *testing.T) {
			f := follow(t, "--store", url, "-n", "1", "--json", "s-1")
			f.until("newest")
			assert.Equal(t, 130, f.interrupt())
			require.Len(t, f.seen, 1)
			var e watchdog.Event
			require.NoError(t, json.Unmarshal([]byte(f.seen[0]), &e))
			assert.Equal(t, watchdog.EventInterrupt, e.Type)
			f = follow(t, "--store", url, "--since", "52m59s", "s-1")
			f.until("newest")
			assert.Equal(t, 130, f.interrupt())
			assert.Len(t, f.seen, 6, "old-8 to old-11, and two new ones")
		})
	})
}

func TestTailRefused(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"tail -n 3":           "watchdog: -n and --since are about the events of one run; name the run, or leave them out\n",
		"tail --lines=-1 s-1": "watchdog: -n -1: the number of events must be 0 or more\n",
		"tail --since=-1s s-1": "watchdog: --since: \"-1s\" is no length of time; write one such as 30s, 5m or 1h30m\n" +
			"watchdog tail --help says how it is used\n",
		"tail s-1": "watchdog: no store is named; write --store sqlite:PATH or --store postgres://..., or set WATCHDOG_STORE\n",
	} {
		o := program(t, strings.Fields(line)...)
		assert.Equal(t, 125, o.status, line)
		assert.Equal(t, want, o.stderr, line)
	}
}
