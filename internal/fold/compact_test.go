package fold_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
)

// folded is a base that holds the events, once they are old enough for that, and what a checkpoint tells of their
// window.
func (s *script) folded(t *testing.T) (*fold.Base, record.FoldedWindow) {
	b := fold.NewBase(fold.WindowID{}, noon).With(*s, noon, at(48*time.Hour))
	var p record.Checkpoint
	require.True(t, b.Record(&p, noon.Add(-time.Hour)))
	require.Len(t, p.Folded.Windows, 1)
	return b, p.Folded.Windows[0]
}

func TestBaseDoesNotChange(t *testing.T) {
	var s script
	opened := s.hold("ask", 0, time.Hour)
	s.extend(time.Hour)
	given := s.wait(1, nil)
	b, before := s.folded(t)
	s.release(opened, time.Minute, given, "unknown")
	s.extend(time.Hour)
	h := b.Of(s[3:])
	now := h.At(noon)
	require.True(t, now.Pauses()[0].Closed)
	require.Equal(t, 2*time.Hour, now.Extended)
	var p record.Checkpoint
	require.True(t, b.Record(&p, noon.Add(-time.Hour)))
	require.Equal(t, before, p.Folded.Windows[0])
}

// TestForgets protects that a base stays small, and keeps what an event can still ask for.
func TestForgets(t *testing.T) {
	t.Run("warnings and wrap-ups under budgets of which more was given since", func(t *testing.T) {
		var s script
		for _, budget := range []record.Seconds{3599, 3600} {
			used := record.Used{ConfiguredBudgetSeconds: budget}
			s.add("warning", record.Warning{SessionStartedAt: stamp(0), Fraction: 0.5, Used: used})
			s.add("wrap_up", record.WrapUp{SessionStartedAt: stamp(0), Used: used})
		}
		for _, allowed := range []record.Number{4, 5} {
			s.add("warning", record.Warning{
				SessionStartedAt: stamp(0), Fraction: 0.5, Spend: &record.Spend{Limit: "tokens", Allowed: allowed},
			})
		}
		s.extend(time.Hour, record.Spend{Limit: "tokens", Extension: 5})
		_, w := s.folded(t)
		tokens := fold.CountKey("tokens", "", "")
		require.ElementsMatch(t, []record.FoldedNumber{
			{Budget: 3600, Fraction: 0.5}, {FoldedLimit: tokens, Budget: 5, Fraction: 0.5},
		}, w.Warnings)
		require.Equal(t, []record.FoldedNumber{{Budget: 3600}}, w.WrapUps)
	})
	t.Run("directives that do not count, and what became of unknown ones after two hours", func(t *testing.T) {
		var s script
		first := s.wait(1, nil)
		last := s.wait(2, nil)
		s.add("progress", record.Progress{SessionStartedAt: stamp(0), Resets: []string{first, "early"}})
		s.add("progress", record.Progress{SessionStartedAt: stamp(0), Resets: []string{"late"}})
		s.extend(0)
		s[4].Timestamp = s[3].Timestamp.Add(2*fold.Lookback - time.Microsecond) // with it the base ends
		_, w := s.folded(t)
		require.Equal(t, []record.FoldedReset{{ID: "late", At: record.Stamp(s[3].Timestamp)}}, w.Resets)
		require.Len(t, w.Directives, 1)
		require.Equal(t, last, w.Directives[0].ID)
	})
	t.Run("the IDs of pauses that were over an hour before its end", func(t *testing.T) {
		for late, want := range map[time.Duration]int{0: 1, time.Microsecond: 2} {
			var s script
			s.release(s.hold("ask", 0, 9*time.Hour), time.Minute)
			s.add("hold", record.Hold{Hold: "ask", SessionStartedAt: stamp(0), OpenedSeconds: 30, CapSeconds: 9 * 3600})
			s.extend(0)
			end := 2 * time.Hour
			s.release("e-2", end+late)
			s[3].Timestamp = at(end + fold.Lookback - time.Microsecond)
			s[4].Timestamp = s[3].Timestamp
			b, w := s.folded(t)
			var ids []string
			for _, p := range w.Pauses {
				ids = append(ids, p.ID)
			}
			require.Len(t, ids, want, "late by %v", late)
			require.Equal(t, late == 0, slices.Contains(ids, "merged"))
			h := b.Of(nil)
			window := h.At(noon)
			require.Len(t, window.Pauses(), 2, "in the process they stay")
		}
	})
}
