package fold_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

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
	tokens := fold.CountKey("tokens", "")
	tokens.Scope = "tenant" // as an older version has it
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
	require.Equal(t, 0, found.WarnedOf(fold.CountKey("tokens", ""), []float64{0.8}, 100), "of another scope")
	require.True(t, found.WrappedUp(fold.Key{}, 3600))
	require.False(t, found.WrappedUp(fold.Key{}, 7200))
	require.True(t, found.WrappedUp(tokens, 100))
	require.False(t, found.WrappedUp(tokens, 101))
}

func TestExtensions(t *testing.T) {
	tokens, calls := fold.CountKey("tokens", ""), fold.CountKey("tool_calls", "grep")
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
		counted: {Rung: 1, On: fold.CountKey("cost", ""), Allowed: 9},
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
	const ms = time.Millisecond
	cancel := func(reason string, fired time.Duration) record.Cancel {
		return record.Cancel{Reason: reason, SessionStartedAt: stamp(0), FiredAt: stamp(fired), Used: record.UsedOf(time.Second, 0)}
	}
	paused, measured := cancel("wall_clock_exceeded", 9500*ms), cancel("idle_exceeded", 1500*ms)
	paused.PausedSeconds, measured.MeasuredSeconds = 8, 1.25
	for name, c := range map[string]struct {
		p    record.Cancel
		want time.Duration
	}{
		"of the wall clock the two times tell it exactly": {cancel("wall_clock_exceeded", 1500*ms), 1500 * ms},
		"less what was paused":                            {paused, 1500 * ms},
		"unless the clock was set in between":             {cancel("wall_clock_exceeded", 2*time.Second), time.Second},
		"of another limit it was measured":                {measured, 1250 * ms},
		"or floored, by who does not measure":             {cancel("idle_exceeded", 1500*ms), time.Second},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, fold.Elapsed(&c.p)) })
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
	tokens := fold.CountKey("tokens", "")
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

// A world is a store and hosts whose clocks are up to an hour apart.
type world struct {
	randomScript
	t        *testing.T
	now      time.Duration
	order    []event.Event // by when they were stored
	spares   bool          // the store knows Selection.Until
	longHaul bool
	holds    map[string]time.Duration // the openings, with the windows that they are of
	released map[string]bool
}

// skew is how far a host's clock is off.
func (w *world) skew() time.Duration { return time.Duration(w.IntN(3601)-1800) * time.Second }

func (w *world) store() {
	w.next()
	e := &w.script[len(w.script)-1]
	e.Timestamp = at(w.now + w.skew()).Add(time.Duration(w.IntN(1e6)) * time.Microsecond)
	switch start := time.Duration(w.IntN(4)) * time.Hour; e.Type {
	case "runtime.watchdog.hold":
		opened := record.ExactSeconds(e.Timestamp.Sub(at(start)))
		e.Payload = record.JSON(record.Hold{SessionStartedAt: stamp(start), OpenedSeconds: opened, CapSeconds: 900})
		w.holds[e.ID] = start
	case "runtime.watchdog.release":
		w.release(e, start)
	}
	w.order = append(w.order, *e)
}

// release has the event close a hold, each once, or one of which the event was not stored yet.
func (w *world) release(e *event.Event, start time.Duration) {
	opening := fmt.Sprint("e-", len(w.script)+w.IntN(3))
	for id, of := range w.holds {
		opening, start = id, of
	}
	delete(w.holds, opening)
	if w.released[opening] {
		opening = ""
	}
	w.released[opening] = true
	e.Payload = record.JSON(record.Release{
		SessionStartedAt: stamp(start), ReleasedSeconds: record.ExactSeconds(e.Timestamp.Sub(at(start))), Opening: opening,
		Resets: []string{w.id()},
	})
}

// selected is what the base's process reads.
func (w *world) selected(b *fold.Base) (events []event.Event) {
	since := b.Since
	all := slices.SortedFunc(slices.Values(w.order), event.Event.Compare)
	known := 0
	for _, e := range all {
		if !e.Timestamp.Before(b.Since) && e.Timestamp.Before(b.Until) {
			known++
		}
	}
	require.GreaterOrEqual(w.t, known, b.Known)
	if w.spares && known == b.Known && !b.Wide() {
		since = b.Until
	}
	for _, e := range all {
		named := e.Type == "runtime.watchdog.cancel" && w.IntN(3) == 0 // asked for by its ID, too
		if !e.Timestamp.Before(since) || named {
			events = append(events, e)
		}
	}
	return events
}

// checkpoint is what a process of a version before took the events to come to.
func (w *world) checkpoint(b *fold.Base) {
	w.order = append(w.order, event.Event{
		ID: fmt.Sprint("checkpoint-", len(w.order)), Type: "runtime.watchdog.checkpoint", Timestamp: b.Until,
		Payload: record.JSON(map[string]any{"format": 1, "folded": map[string]any{"windows": []any{
			map[string]any{"session_started_at": stamp(0), "extension_seconds": 3600},
		}}}),
	})
}

// said is what can be asked of a window, now and later.
func said(w *fold.Window, now time.Time) map[string]any {
	elapsed := now.Sub(w.StartedAt)
	var paused []time.Duration
	for after := range 6 {
		paused = append(paused, verdict.PausedBefore(w.Paused(), elapsed+time.Duration(after-1)*20*time.Minute))
	}
	open := slices.DeleteFunc(append([]fold.Pause{}, w.Pauses()...), func(p fold.Pause) bool { return p.Closed })
	standing := maps.Collect(w.Standing())
	budget := w.Extended + 4*time.Hour
	given := map[fold.Key]int64{}
	maps.Copy(given, w.Given)
	key := fold.CountKey("tokens", "")
	stop := ""
	if w.Stop != nil {
		stop = string(record.JSON(w.Stop))
	}
	return map[string]any{
		"start": w.StartedAt, "opened": w.OpenedBy, "extended": w.Extended, "given": given, "stop": stop,
		"completed": w.CompletedAt.UTC(), "standing": standing, "paused": paused, "open": open,
		"warned":  w.WarnedOf(fold.Key{}, []float64{0.5, 0.8}, budget.Seconds()),
		"wrapped": w.WrappedUp(fold.Key{}, budget.Seconds()), "next": w.NextStart(w.StartedAt),
		"tokens": w.WarnedOf(key, []float64{0.5}, float64(w.Given[key]+2)),
	}
}

// TestBase protects that what is folded in parts, by several processes, is what everything comes to, whoever stored what
// when.
func TestBase(t *testing.T) {
	from := at(-2 * time.Hour)
	for seed := range racing.Rounds[uint64](120, 500) {
		w := world{t: t, now: 4 * time.Hour, spares: seed%3 > 0, longHaul: seed%2 == 0, holds: map[string]time.Duration{}, released: map[string]bool{}}
		w.Rand = rand.New(rand.NewPCG(seed, 11))
		var bases []*fold.Base
		for range 60 + w.IntN(60) {
			switch n := w.IntN(12); {
			case n < 8:
				w.store()
			case n < 9 && w.longHaul:
				w.now += time.Duration(w.IntN(90)) * time.Minute
			case n < 9:
				w.now += time.Duration(w.IntN(90)) * time.Second
			default:
				b := fold.NewBase(fold.WindowID{}, from)
				if len(bases) > 0 && w.IntN(4) > 0 {
					b = bases[w.IntN(len(bases))]
				}
				read := w.selected(b)
				w.compare(b.Of(read), seed)
				said, b := b.Read(read, at(w.now+w.skew()).Add(time.Duration(w.IntN(1e6))))
				w.compare(said, seed)
				require.Equal(t, b.Since, event.Truncate(b.Since), "stores keep no more")
				if w.IntN(2) == 0 {
					w.checkpoint(b)
				}
				bases = append(bases, b)
			}
		}
	}
}

func (w *world) compare(got fold.History, seed uint64) {
	all := slices.Clone(w.order)
	w.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	want := fold.Of(fold.WindowID{}, all)
	now := at(w.now)
	for start := range 5 {
		host := at(time.Duration(start) * time.Hour)
		one, other := want.Current(host), got.Current(host)
		require.Equal(w.t, said(&one, now), said(&other, now), "seed %d", seed)
		one, other = want.At(host), got.At(host)
		require.Equal(w.t, said(&one, now), said(&other, now), "seed %d", seed)
		require.Equal(w.t, want.StopsInRow(host), got.StopsInRow(host), "seed %d", seed)
	}
	require.Equal(w.t, want.Last() == nil, got.Last() == nil)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folded is a base that holds the events, once they are old enough for that, and their window.
func (s *script) folded() (*fold.Base, fold.Window) {
	h, b := fold.NewBase(fold.WindowID{}, noon).Read(*s, at(48*time.Hour))
	return b, h.At(noon)
}

func TestBaseDoesNotChange(t *testing.T) {
	var s script
	opened := s.hold("ask", 0, time.Hour)
	s.extend(time.Hour)
	given := s.wait(1, nil)
	s.add("progress", record.Progress{SessionStartedAt: stamp(0), Resets: []string{"another"}})
	b, before := s.folded()
	want := said(&before, at(time.Hour))
	s.release(opened, time.Minute, given, "unknown")
	s.extend(time.Hour)
	for range 2 {
		h := b.Of(s[4:])
		now := h.At(noon)
		require.True(t, now.Pauses()[0].Closed)
		require.Equal(t, 2*time.Hour, now.Extended)
		_, next := b.Read(s[4:], at(48*time.Hour))
		require.Equal(t, 6, next.Known)
		require.Equal(t, 4, b.Known)
		h = b.Of(nil)
		now = h.At(noon)
		require.Equal(t, want, said(&now, at(time.Hour)))
	}
}

// TestRead protects that what may still be under way is left to a later base.
func TestRead(t *testing.T) {
	var s script
	s.extend(time.Hour)
	for age, news := range map[time.Duration]int{2 * time.Second: 1, 2*time.Second + time.Microsecond: 0} {
		h, b := fold.NewBase(fold.WindowID{}, noon).Read(s, s[0].Timestamp.Add(age))
		w := h.At(noon)
		require.Equal(t, time.Hour, w.Extended, age)
		require.Equal(t, news, b.News(s), age)
		require.Equal(t, 1-news, b.Known, age)
	}
}

// TestWide protects that what a store has to count stays within hours, however long the window is.
func TestWide(t *testing.T) {
	b, wide := fold.NewBase(fold.WindowID{}, noon), 0
	var s script
	for minute := range 24 * 60 {
		s.extend(time.Second)
		s[minute].Timestamp = at(time.Duration(minute) * time.Minute)
		news := s[minute:]
		if b.Wide() {
			wide++
			news = s[len(s)-b.Known-1:]
		}
		var h fold.History
		h, b = b.Read(news, at(time.Duration(minute+1)*time.Minute))
		w := h.At(noon)
		require.Equal(t, time.Duration(minute+1)*time.Second, w.Extended)
		require.LessOrEqual(t, b.Known, 122)
	}
	require.InDelta(t, 23, wide, 1, "once an hour")
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
		_, w := s.folded()
		tokens := fold.CountKey("tokens", "")
		for budget, want := range map[float64]int{3599: 0, 3600: 1} {
			require.Equal(t, want, w.WarnedOf(fold.Key{}, []float64{0.5}, budget))
			require.Equal(t, want == 1, w.WrappedUp(fold.Key{}, budget))
		}
		for allowed, want := range map[float64]int{4: 0, 5: 1} {
			require.Equal(t, want, w.WarnedOf(tokens, []float64{0.5}, allowed))
		}
	})
	t.Run("directives that do not count, and what became of unknown ones after two hours", func(t *testing.T) {
		var s script
		first := s.wait(1, nil)
		last := s.wait(2, nil)
		s.add("progress", record.Progress{SessionStartedAt: stamp(0), Resets: []string{first, "e-5"}})
		s.add("progress", record.Progress{SessionStartedAt: stamp(0), Resets: []string{"e-6"}})
		s.extend(0)
		s[4].Timestamp = s[3].Timestamp.Add(2*fold.Lookback - time.Microsecond) // with it the base ends
		b, w := s.folded()
		require.Equal(t, []string{last}, slices.Collect(maps.Keys(maps.Collect(w.Standing()))))
		s.wait(1, nil) // whose fate was told long before
		s.wait(1, nil) // or not so long
		h := b.Of(s[5:])
		w = h.At(noon)
		require.ElementsMatch(t, []string{last, "e-5"}, slices.Collect(maps.Keys(maps.Collect(w.Standing()))))
	})
}

// TestTakenOver protects how long a hold stopped the wall clock that was taken over: until its own process closed it, if
// that lived, and else until the first one took it over.
func TestTakenOver(t *testing.T) {
	const h, m = time.Hour, time.Minute
	for name, c := range map[string]struct {
		closed func(s *script, opening string)
		until  time.Duration
	}{
		"by one":                        {func(s *script, o string) { s.take(o, "a", 3*m) }, 3 * m},
		"by two":                        {func(s *script, o string) { s.take(o, "a", 3*m); s.take(o, "b", 2*m); s.take(o, "c", 4*m) }, 2 * m},
		"and closed before":             {func(s *script, o string) { s.release(o, m); s.take(o, "a", 3*m) }, m},
		"and closed later, read before": {func(s *script, o string) { s.release(o, 5*m); s.take(o, "a", 3*m) }, 5 * m},
		"and closed later":              {func(s *script, o string) { s.take(o, "a", 3*m); s.release(o, 5*m) }, 5 * m},
	} {
		t.Run(name, func(t *testing.T) {
			var s script
			c.closed(&s, s.hold("tool", 0, h))
			w := s.current()
			require.Equal(t, c.until, verdict.PausedBefore(w.Paused(), h))
		})
	}
}
