package fold_test

import (
	"maps"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

func TestSpendName(t *testing.T) {
	const second = "1777636800"
	exact := func(d time.Duration) string { return stamp(d).String() }
	for _, c := range []struct {
		name   string
		events func(s *script)
		host   time.Duration
		want   string
	}{
		{"a host's start is named by its second", func(*script) {}, time.Second / 4, second},
		{"also one with events", func(s *script) { s.cancel(0, time.Hour) }, 0, second},
		{"that of a resume by the whole start", func(s *script) { s.resume(-time.Hour, 0) }, 0, exact(0)},
		{
			"and one in the second of a window that had ended before it",
			func(s *script) { s.cancel(0, time.Second/4) }, time.Second / 2, exact(time.Second / 2),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s script
			c.events(&s)
			h := s.fold()
			found := h.Current(at(c.host))
			require.Equal(t, c.want, found.SpendName())
		})
	}
}

// TestBlank protects that a window of which anything is known is not taken for a blank one.
func TestBlank(t *testing.T) {
	for name, events := range map[string]func(s *script){
		"":              func(*script) {},
		"a resume":      func(s *script) { s.resume(-time.Hour, 0) },
		"more time":     func(s *script) { s.extend(1000) },
		"a given count": func(s *script) { s.extend(0, record.Spend{Limit: "tokens", Extension: 5}) },
		"a cancel":      func(s *script) { s.cancel(0, time.Hour) },
		"a complete":    func(s *script) { s.complete(0, time.Hour) },
		"a wrap-up":     func(s *script) { s.add("wrap_up", record.WrapUp{SessionStartedAt: stamp(0)}) },
		"a directive":   func(s *script) { s.wait(1, nil) },
		"a reset":       func(s *script) { s.release("", 0, "e-9") },
		"a pause":       func(s *script) { s.hold("ask", 0, time.Hour) },
	} {
		var s script
		events(&s)
		found := s.current()
		require.Equal(t, name == "", found.Blank(), name)
	}
	var s script
	s.cancel(0, time.Second/4)
	h := s.fold()
	found := h.Current(at(time.Second / 2))
	require.False(t, found.Blank(), "it shares its second with one that has ended")
}

func TestNextStart(t *testing.T) {
	var s script
	s.cancel(0, time.Hour)
	s.resume(0, time.Microsecond)
	found := s.current()
	require.Equal(t, at(2*time.Microsecond), found.NextStart(at(999)), "the clock has gone back: both are taken")
	require.Equal(t, at(time.Hour), found.NextStart(at(time.Hour+999)))
}

func TestBudgets(t *testing.T) {
	spend := &record.Spend{Limit: "tokens", Scope: "tenant", Allowed: 100}
	tokens := fold.CountKey("tokens", "", "tenant")
	var s script
	warn := func(fraction, budget float64, of *record.Spend) {
		s.add("warning", record.Warning{
			SessionStartedAt: stamp(0), Fraction: record.Seconds(fraction),
			Used: record.Used{ConfiguredBudgetSeconds: record.Seconds(budget)}, Spend: of,
		})
	}
	warn(0.5, 3600, nil)
	warn(0.9, 3600, nil)
	warn(0.5, 7200, nil)
	warn(0.8, 0, spend)
	s.add("wrap_up", record.WrapUp{SessionStartedAt: stamp(0), Used: record.Used{ConfiguredBudgetSeconds: 3600}})
	s.add("wrap_up", record.WrapUp{SessionStartedAt: stamp(0), Spend: spend})
	found := s.current()
	fractions := []float64{0.5, 0.8, 0.9}
	require.Equal(t, 1, found.WarnedOf(fold.Key{}, fractions, 3600), "the second one did not come")
	require.Equal(t, 2, found.WarnedOf(fold.Key{}, []float64{0.5, 0.9}, 3600))
	require.Equal(t, 0, found.WarnedOf(fold.Key{}, []float64{0.9}, 7200), "after an extension they come again")
	require.Equal(t, 1, found.WarnedOf(tokens, []float64{0.8}, 100))
	require.Equal(t, 0, found.WarnedOf(fold.CountKey("tokens", "", ""), []float64{0.8}, 100), "of another scope")
	require.True(t, found.WrappedUp(fold.Key{}, 3600))
	require.False(t, found.WrappedUp(fold.Key{}, 7200))
	require.True(t, found.WrappedUp(tokens, 100))
	require.False(t, found.WrappedUp(tokens, 101))
}

func TestExtensions(t *testing.T) {
	tokens, calls := fold.CountKey("tokens", "", ""), fold.CountKey("tool_calls", "grep", "")
	var s script
	s.extend(time.Hour)
	s.extend(time.Minute, record.Spend{Limit: "tokens", Extension: 5}, record.Spend{Limit: "tool_calls", Tool: "grep", Extension: 2})
	s.extend(-time.Hour, record.Spend{Limit: "tokens", Extension: -5})
	s.extend(0, record.Spend{Limit: "tokens", Extension: 7})
	found := s.current()
	require.Equal(t, time.Hour+time.Minute, found.Extended, "nothing takes an extension back")
	require.Equal(t, map[fold.Key]int64{tokens: 12, calls: 2}, found.Given)
	found.Give(map[fold.Key]int64{tokens: 11, calls: 3})
	require.Equal(t, map[fold.Key]int64{tokens: 12, calls: 3}, found.Given, "the larger one counts")
	s.extend(math.MaxInt64)
	s.extend(math.MaxInt64, record.Spend{Limit: "tokens", Extension: math.MaxInt64})
	found = s.current()
	require.Equal(t, verdict.Never, found.Extended)
	require.Equal(t, int64(verdict.Endless), found.Given[tokens])
	var none fold.Window
	none.Give(map[fold.Key]int64{tokens: 1})
	require.Equal(t, map[fold.Key]int64{tokens: 1}, none.Given)
}

func TestStanding(t *testing.T) {
	var s script
	cost := &record.Spend{Limit: "cost", Allowed: 9}
	first := s.wait(1, nil)
	second := s.wait(2, nil)
	third := s.wait(2, nil, second) // takes the place of the one before
	byProgress := s.wait(3, nil)
	byRelease := s.wait(4, nil)
	counted := s.wait(1, cost)
	s.add("progress", record.Progress{SessionStartedAt: stamp(0), Resets: []string{byProgress, "unknown"}})
	s.release("", 0, byRelease)
	held := s.add("retry", record.Trip{SessionStartedAt: stamp(0), Reason: "hold_exceeded", Hold: "tool", Rung: 1})
	found := s.current()
	idle := fold.KeyOf(verdict.Idle, "", nil)
	require.Equal(t, map[string]fold.Directive{
		first: {Rung: 1, On: idle}, third: {Rung: 2, On: idle},
		counted: {Rung: 1, On: fold.CountKey("cost", "", ""), Allowed: 9},
		held:    {Rung: 1, On: fold.KeyOf(verdict.Hold, "tool", nil)},
	}, maps.Collect(found.Standing()))
	require.Equal(t, fold.Key{Limit: "idle"}, idle)
	require.Equal(t, fold.Key{Limit: "hold", Hold: "tool"}, fold.KeyOf(verdict.Hold, "tool", nil))
	for range found.Standing() {
		break // a caller may stop
	}
	require.Empty(t, maps.Collect(new(fold.Window).Standing()))
}

func TestElapsed(t *testing.T) {
	for _, c := range []struct {
		name string
		p    record.Cancel
		want time.Duration
	}{
		{
			"of the wall clock the two times tell it exactly",
			record.Cancel{Reason: "wall_clock_exceeded", SessionStartedAt: stamp(0), FiredAt: stamp(1500 * time.Millisecond), Used: record.UsedOf(time.Second, 0)},
			1500 * time.Millisecond,
		},
		{
			"less what was paused",
			record.Cancel{Reason: "wall_clock_exceeded", SessionStartedAt: stamp(0), FiredAt: stamp(9500 * time.Millisecond), Used: record.UsedOf(time.Second, 0), PausedSeconds: 8},
			1500 * time.Millisecond,
		},
		{
			"unless the clock was set in between",
			record.Cancel{Reason: "wall_clock_exceeded", SessionStartedAt: stamp(0), FiredAt: stamp(2 * time.Second), Used: record.UsedOf(time.Second, 0)},
			time.Second,
		},
		{
			"of another limit it was measured",
			record.Cancel{Reason: "idle_exceeded", SessionStartedAt: stamp(0), FiredAt: stamp(1500 * time.Millisecond), Used: record.UsedOf(time.Second, 0), MeasuredSeconds: 1.25},
			1250 * time.Millisecond,
		},
		{
			"or floored, by who does not measure",
			record.Cancel{Reason: "idle_exceeded", SessionStartedAt: stamp(0), FiredAt: stamp(1500 * time.Millisecond), Used: record.UsedOf(time.Second, 0)},
			time.Second,
		},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, fold.Elapsed(&c.p)) })
	}
}

func TestPauses(t *testing.T) {
	var s script
	later := s.hold("tool", time.Hour, time.Minute)
	first := s.hold("ask", time.Second, time.Hour)
	same := s.hold("ask", time.Hour, time.Minute)
	s.release(first, time.Minute)
	s.release("unknown", time.Second)
	s.release("", time.Second)
	found := s.current()
	pause := func(id string, opened, limit time.Duration) verdict.Pause {
		return verdict.Pause{ID: id, Opened: opened, Cap: limit}
	}
	closed := pause(first, time.Second, time.Hour)
	closed.Closed, closed.Released = true, time.Minute
	want := []fold.Pause{
		{Pause: closed, Hold: "ask"}, {Pause: pause(later, time.Hour, time.Minute), Hold: "tool"},
		{Pause: pause(same, time.Hour, time.Minute), Hold: "ask"},
	}
	require.Equal(t, want, found.Pauses(), "in the order of their opening, as far as that is known")
	require.Equal(t, []verdict.Pause{want[0].Pause, want[1].Pause, want[2].Pause}, found.Paused())
	require.Empty(t, new(fold.Window).Paused())
}

func TestTakesBack(t *testing.T) {
	tokens := fold.CountKey("tokens", "", "")
	wall, idle := fold.KeyOf(verdict.WallClock, "", nil), fold.KeyOf(verdict.Idle, "", nil)
	hold := fold.KeyOf(verdict.Hold, "tool", nil)
	knows := func(pauses ...verdict.Pause) *verdict.Pauses { return new(verdict.Pauses).With(pauses) }
	const h, m = time.Hour, time.Minute
	for _, c := range []struct {
		name   string
		events func(s *script)
		trip   fold.Trip
		want   bool
	}{
		{"nothing is known", func(*script) {}, fold.Trip{On: wall, Elapsed: h, Pauses: knows()}, false},
		{"the window has its stop", func(s *script) { s.cancel(0, h) }, fold.Trip{On: idle}, true},
		{"or is complete", func(s *script) { s.complete(0, h) }, fold.Trip{}, true},
		{"more time", func(s *script) { s.extend(m + 1000) }, fold.Trip{On: wall, Extended: m, Pauses: knows()}, true},
		{"as much time", func(s *script) { s.extend(m) }, fold.Trip{On: wall, Extended: m, Pauses: knows()}, false},
		{"more time is none of another limit", func(s *script) { s.extend(m) }, fold.Trip{On: idle}, false},
		{"nor of another guard's cancel", func(s *script) { s.extend(m) }, fold.Trip{}, false},
		{
			"another process's pause",
			func(s *script) { s.hold("ask", m, h) }, fold.Trip{On: wall, Elapsed: h, Pauses: knows()}, true,
		},
		{
			"one that is known here too",
			func(s *script) { s.hold("ask", m, h) },
			fold.Trip{On: wall, Elapsed: h, Paused: h - m, Pauses: knows(verdict.Pause{ID: "e-0", Opened: m, Cap: h})}, false,
		},
		{
			"one that overlaps with this process's own",
			func(s *script) { s.hold("ask", 2*m, 3*m) },
			fold.Trip{On: wall, Elapsed: h, Paused: 4 * m, Pauses: knows(verdict.Pause{ID: "own", Opened: m, Cap: 4 * m})}, false,
		},
		{
			"one that was opened later",
			func(s *script) { s.hold("ask", 2*h, h) }, fold.Trip{On: wall, Elapsed: h, Pauses: knows()}, false,
		},
		{"a pause is none of another limit", func(s *script) { s.hold("ask", m, h) }, fold.Trip{On: idle, Elapsed: h}, false},
		{
			"the hold was closed by its own process",
			func(s *script) { s.release(s.hold("tool", 0, h), m) }, fold.Trip{On: hold, LeftOpen: "e-0"}, true,
		},
		{
			"it was not",
			func(s *script) { s.hold("tool", 0, h) }, fold.Trip{On: hold, LeftOpen: "e-0"}, false,
		},
		{
			"another was",
			func(s *script) { s.release(s.hold("tool", 0, h), m) }, fold.Trip{On: hold, LeftOpen: "e-7"}, false,
		},
		{
			"and this process's own cap is not taken back",
			func(s *script) { s.release(s.hold("tool", 0, h), m) }, fold.Trip{On: hold}, false,
		},
		{
			"a counted limit was given more",
			func(s *script) { s.extend(0, record.Spend{Limit: "tokens", Extension: 5}) }, fold.Trip{On: tokens, Given: 4}, true,
		},
		{
			"as much",
			func(s *script) { s.extend(0, record.Spend{Limit: "tokens", Extension: 5}) }, fold.Trip{On: tokens, Given: 5}, false,
		},
		{
			"another was, and the wall clock",
			func(s *script) { s.extend(h, record.Spend{Limit: "turns", Extension: 5}) }, fold.Trip{On: tokens}, false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s script
			c.events(&s)
			found := s.current()
			require.Equal(t, c.want, found.TakesBack(&c.trip))
		})
	}
}
