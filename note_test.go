package watchdog_test

import (
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func TestLongNote(t *testing.T) {
	for _, c := range []struct{ name, noted, want string }{
		{"is kept as it is", "read_file", "read_file"},
		{"has spaces for control characters", "a\nb\x00c", "a b c"},
		{"has one mark for a stretch of invalid UTF-8", "a\xff\xfe\xfdb", "a\uFFFDb"},
		{"keeps 200 characters, however long each is", strings.Repeat("𝄞", 300), strings.Repeat("𝄞", 200)},
		{"keeps what the first KiB says", strings.Repeat("\xff", 1020) + "abcdef", "\uFFFDabcd"},
		{"does not cut a character in two", strings.Repeat("\xff", 1022) + "𝄞", "\uFFFD"},
		{"keeps a mark that the host wrote", "a\uFFFD", "a\uFFFD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, watchdog.Config{}, func(wd *watchdog.Watchdog, _ *flakyStore) {
				wd.Note(c.noted)
				require.Equal(t, c.want, wd.LastNote())
				require.True(t, utf8.ValidString(wd.LastNote()))
			})
		})
	}
	t.Run("costs the same however long it is", func(t *testing.T) {
		long := strings.Repeat("\xff", 64<<20)
		inBubble(t, watchdog.Config{}, func(wd *watchdog.Watchdog, _ *flakyStore) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			wd.Note(long)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
		})
	})
}

func TestManyWarnings(t *testing.T) {
	fractions := func(n int) (all []float64) {
		for i := range n {
			all = append(all, float64(i+1)/float64(n+1))
		}
		return all
	}
	require.NoError(t, watchdog.Budget{WallClock: time.Hour, WarnAt: fractions(100)}.Validate())
	err := watchdog.Budget{WallClock: time.Hour, WarnAt: fractions(101)}.Validate()
	require.ErrorIs(t, err, watchdog.ErrInvalid)
	require.ErrorContains(t, err, "WarnAt has 101 fractions; use at most 100")
}
