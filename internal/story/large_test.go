package story_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/story"
)

// TestLarge protects who reads the story of a run that was asked very often: it takes as long for each event as for the
// first ones. A look through all that came before, for each event, takes minutes.
func TestLarge(t *testing.T) {
	if testing.Short() || racing.Enabled {
		t.Skip("it measures")
	}
	later := func(i int) time.Duration { return time.Duration(i) * time.Millisecond }
	others := slices.Repeat([]string{"00000000-0000-4000-8000-999999999999"}, 100)
	for name, c := range map[string]struct {
		n   int
		add func(s *script, i int)
	}{
		"directives that progress made void": {3000, func(s *script, i int) {
			s.add(later(i), watchdog.EventRetry, record.Trip{
				Reason: "idle_exceeded", SessionStartedAt: at(0), Directive: "retry",
				Used: record.UsedOf(0, 5*time.Second),
			})
			s.add(later(i), watchdog.EventProgress, record.Progress{SessionStartedAt: at(0), Resets: append(others, s.lastID())})
		}},
		"holds, each with a name of its own": {30_000, func(s *script, i int) {
			s.add(later(i), watchdog.EventRetry, record.Trip{
				Reason: "hold_exceeded", Hold: fmt.Sprint("tool ", i), SessionStartedAt: at(0), Directive: "retry",
				Used: record.UsedOf(0, 5*time.Second),
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := script{run: "s-1"}
			for i := range c.n {
				c.add(&s, i)
			}
			began := time.Now()
			told := story.Of(s.record(nil), told)
			require.Len(t, told.Stretches(), c.n+1, "a window, with a grace for each")
			assert.Less(t, time.Since(began), time.Minute)
			require.Len(t, told.Asked, c.n)
		})
	}
}
