package fold_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/record"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return noon.Add(d) }

func stamp(d time.Duration) event.Stamp { return event.Stamp(at(d)) }

// A script is the events of a run, a second apart. IDs are "e-0", "e-1" and so on.
type script []event.Event

// add adds an event of a kind of the watchdog's, whose payload is a text or what becomes one, and returns its ID.
func (s *script) add(kind string, payload any) (id string) {
	text, plain := payload.(string)
	if !plain {
		text = string(record.JSON(payload))
	}
	id = fmt.Sprint("e-", len(*s))
	*s = append(*s, event.Event{
		ID: id, AggregateType: "runtime_control", AggregateID: "s-1", Type: "runtime.watchdog." + kind,
		Payload: json.RawMessage(text), Timestamp: at(time.Duration(len(*s)) * time.Second),
	})
	return id
}

func (s *script) cancel(start, fired time.Duration) (id string) {
	return s.add("cancel", record.Cancel{
		Reason: "wall_clock_exceeded", SessionStartedAt: stamp(start), FiredAt: stamp(fired),
		Used: record.UsedOf(14400*time.Second, 14400*time.Second),
	})
}

func (s *script) complete(start, completed time.Duration) (id string) {
	return s.add("complete", record.Complete{SessionStartedAt: stamp(start), CompletedAt: stamp(completed)})
}

func (s *script) resume(previous, start time.Duration) (id string) {
	return s.add("resume", record.Resume{SessionStartedAt: stamp(start), PreviousStartedAt: stamp(previous)})
}

func (s *script) correct(cancel string) {
	s.add("correction", record.Correction{Cancel: cancel, SessionStartedAt: stamp(0)})
}

func (s *script) extend(d time.Duration, spend ...record.Spend) {
	s.add("extend", record.Extend{SessionStartedAt: stamp(0), ExtensionSeconds: record.FloatSeconds(d), Spend: spend})
}

func (s *script) wait(rung int, spend *record.Spend, resets ...string) (id string) {
	return s.add("wait", record.Trip{
		Reason: "idle_exceeded", SessionStartedAt: stamp(0), Directive: "wait", Rung: record.Count(rung), Spend: spend,
		Resets: resets,
	})
}

func (s *script) hold(key string, opened, limit time.Duration) (id string) {
	return s.add("hold", record.Hold{
		Hold: key, SessionStartedAt: stamp(0), OpenedSeconds: record.ExactSeconds(opened),
		CapSeconds: record.FloatSeconds(limit),
	})
}

func (s *script) release(opening string, released time.Duration, resets ...string) {
	s.add("release", record.Release{
		SessionStartedAt: stamp(0), ReleasedSeconds: record.ExactSeconds(released), Opening: opening, Resets: resets,
	})
}

// take is a release by a hold that took the other one over.
func (s *script) take(opening, by string, released time.Duration) {
	s.add("release", record.Release{
		SessionStartedAt: stamp(0), ReleasedSeconds: record.ExactSeconds(released), Opening: opening, TakenBy: by,
	})
}

func (s *script) fold() fold.History { return fold.Of(fold.WindowID{}, *s) }

// current is the window that a run is in whose host says that it began at noon.
func (s *script) current() fold.Window {
	h := s.fold()
	return h.Current(noon)
}

// A randomScript is events of few windows, keys and moments, so that they say different things of one.
type randomScript struct {
	script
	*rand.Rand
}

func (s *randomScript) of() event.Stamp { return stamp(time.Duration(s.IntN(4)) * time.Hour) }

func (s *randomScript) id() string { return []string{"e-0", "e-1", "e-2", "e-3", "e-9"}[s.IntN(5)] }

func (s *randomScript) spend() *record.Spend {
	if s.IntN(2) == 0 {
		return nil
	}
	return &record.Spend{Limit: "tokens", Allowed: record.Number(s.IntN(3)), Extension: record.Number(s.IntN(3))}
}

func (s *randomScript) next() {
	fresh := []string{"", "", "", "fresh"}[s.IntN(4)]
	budget := record.Seconds(s.IntN(2))
	switch s.IntN(11) {
	case 0:
		s.add("cancel", record.Cancel{SessionStartedAt: s.of(), FiredAt: s.of(), Window: fresh})
	case 1:
		s.add("complete", record.Complete{SessionStartedAt: s.of(), CompletedAt: s.of(), Window: fresh})
	case 2:
		s.add("correction", record.Correction{SessionStartedAt: s.of(), Cancel: s.id()})
	case 3:
		s.add("resume", record.Resume{SessionStartedAt: s.of(), PreviousStartedAt: s.of()})
	case 4:
		s.add("extend", record.Extend{SessionStartedAt: s.of(), ExtensionSeconds: budget, Spend: []record.Spend{{Limit: "turns", Extension: 1}}})
	case 5:
		s.add("warning", record.Warning{SessionStartedAt: s.of(), Used: record.Used{ConfiguredBudgetSeconds: budget}, Spend: s.spend()})
	case 6:
		s.add("wrap_up", record.WrapUp{SessionStartedAt: s.of(), Used: record.Used{ConfiguredBudgetSeconds: budget}, Spend: s.spend()})
	case 7:
		s.add("wait", record.Trip{SessionStartedAt: s.of(), Rung: record.Count(s.IntN(3)), Spend: s.spend(), Resets: []string{s.id()}})
	case 8:
		s.add("hold", record.Hold{SessionStartedAt: s.of(), OpenedSeconds: budget, CapSeconds: 9})
	case 9:
		opening, at := s.id(), record.Seconds(s.IntN(9))
		s.add("release", record.Release{
			SessionStartedAt: s.of(), Opening: opening, ReleasedSeconds: at, TakenBy: []string{"", "e-1", "e-2"}[s.IntN(3)],
		})
	default:
		s.add("progress", []string{`{"session_started_at":7}`, `{"resets":[]}`, `{"session_started_at":"2026-05-01T12:00:00Z","resets":7}`}[s.IntN(3)])
	}
	last := &s.script[len(s.script)-1]
	last.Timestamp = at(time.Duration(s.IntN(3)) * time.Second) // several at a moment
}

// TestOrder protects that what is known of a run does not depend on the order in which its events are given.
func TestOrder(t *testing.T) {
	for seed := range racing.Rounds[uint64](100, 3_000) {
		s := randomScript{Rand: rand.New(rand.NewPCG(seed, 7))}
		for range 2 + s.IntN(20) {
			s.next()
		}
		slices.SortFunc(s.script, event.Event.Compare) // as a store returns them
		want := s.fold()
		for range 4 {
			s.Shuffle(len(s.script), func(i, j int) { s.script[i], s.script[j] = s.script[j], s.script[i] })
			shuffled := slices.Clone(s.script)
			got := s.fold()
			require.Equal(t, want, got, "seed %d", seed)
			require.Equal(t, shuffled, s.script, "what is given stays as it is")
			for start := range 5 {
				host := at(time.Duration(start) * time.Hour)
				require.Equal(t, want.Current(host), got.Current(host), "seed %d", seed)
				require.Equal(t, want.Unreadable(host), got.Unreadable(host), "seed %d", seed)
				require.Equal(t, want.StopsInRow(host), got.StopsInRow(host), "seed %d", seed)
			}
		}
	}
}

// FuzzOf folds a payload of any bytes beside two that can be read: it is of a window or unreadable, and what the others
// say stays.
func FuzzOf(f *testing.F) {
	kinds := []string{
		"cancel", "complete", "correction", "resume", "extend", "warning", "wrap_up", "wait", "progress", "hold", "release",
	}
	s := randomScript{Rand: rand.New(rand.NewPCG(1, 7))}
	for range 100 {
		s.next()
	}
	for _, e := range s.script {
		f.Add(e.Type[len("runtime.watchdog."):], []byte(e.Payload))
	}
	for _, kind := range kinds {
		f.Add(kind, []byte(`[]`))
		f.Add(kind, []byte(`{"session_started_at":"0001-01-01T00:00:00Z"}`))
		f.Add(kind, []byte(`{"session_started_at":"2026-05-01T12:00:00Z","spend":[null]}`))
		f.Add(kind, []byte(`{"session_started_at":"2026-05-01T12:00:00Z","cap_seconds":1e999,"opening":"e-1"}`))
	}
	f.Fuzz(func(t *testing.T, kind string, payload []byte) {
		var s script
		s.cancel(-time.Hour, -time.Minute)
		s.hold("ask", time.Second, time.Hour)
		s.add(kind, string(payload))
		h := s.fold()
		stopped, noonWindow := h.At(at(-time.Hour)), h.At(noon)
		require.NotNil(t, stopped.Stop)
		require.NotEmpty(t, noonWindow.Pauses())
		found := h.Current(noon)
		require.GreaterOrEqual(t, found.Extended, time.Duration(0))
		require.Equal(t, found, h.Current(noon))
		require.False(t, slices.Contains([]time.Time{at(-time.Hour), noon, found.StartedAt}, found.NextStart(noon)))
		if e := h.Unreadable(noon); e != nil {
			require.Equal(t, "e-2", e.Event.ID)
			require.NotEmpty(t, e.Error())
		}
		for range found.Standing() {
			continue
		}
		require.LessOrEqual(t, h.StopsInRow(found.StartedAt), 3)
	})
}

func TestCurrent(t *testing.T) {
	const h = time.Hour
	for _, c := range []struct {
		name   string
		events func(s *script)
		host   time.Duration // the start that the host says
		want   time.Duration
		over   bool
	}{
		{"no events: the host's start", func(*script) {}, 3 * h, 3 * h, false},
		{"a window that was stopped stays the current one", func(s *script) { s.cancel(0, 4*h) }, 0, 0, true},
		{"the cancel of an earlier window is not this one's", func(s *script) { s.cancel(-9*h, -5*h) }, 0, 0, false},
		{
			"a start later than the cancel is a window that the host has opened",
			func(s *script) { s.cancel(0, 4*h) }, 5 * h, 5 * h, false,
		},
		{"a start at the cancel is none", func(s *script) { s.cancel(0, 4*h) }, 4 * h, 0, true},
		{"none follows a complete one but by a resume", func(s *script) { s.complete(0, h) }, 9 * h, 0, true},
		{"a resume opens a window after it", func(s *script) { s.complete(0, h); s.resume(0, 2*h) }, 0, 2 * h, false},
		{
			"a start within a second of the recorded one is the same, kept in whole seconds",
			func(s *script) { s.resume(-h, time.Second/2) }, time.Second, time.Second / 2, false,
		},
		{
			"a start a second after the recorded one is another",
			func(s *script) { s.resume(-h, 0) }, time.Second, time.Second, false,
		},
		{
			"the chain of resumes orders the windows, not the clock",
			func(s *script) {
				s.cancel(0, 4*h)
				s.resume(0, -3*h)
				s.cancel(-3*h, -2*h)
				s.resume(-3*h, -1*h)
			}, 0, -1 * h, false,
		},
		{
			"a start that is known is no window of the host's own, however late",
			func(s *script) {
				s.cancel(5*h, 6*h)
				s.resume(5*h, 0)
				s.cancel(0, h)
			}, 5 * h, 0, true,
		},
		{
			"a resume that was stored before the cancel that it follows",
			func(s *script) { s.resume(0, 5*h); s.cancel(0, 4*h) }, 0, 5 * h, false,
		},
		{
			"of two chains the one that begins later, not the one that ends later",
			func(s *script) {
				s.cancel(-20*h, -19*h)
				s.resume(-20*h, -2*h)
				s.cancel(-9*h, -8*h)
				s.resume(-9*h, -7*h)
			}, -9 * h, -7 * h, false,
		},
		{
			"nor the one that another resume opened after a window that nobody knows",
			func(s *script) {
				s.cancel(0, h)
				s.resume(0, 3*h)
				s.resume(-9*h, 3*h)
				s.resume(-20*h, 2*h)
			}, 0, 2 * h, false,
		},
		{
			"a start before the window is none of the host's, whatever the clock was at its cancel",
			func(s *script) { s.cancel(0, -h) }, -h / 2, 0, true,
		},
		{
			"a damaged chain is a circle, of which the latest window is one",
			func(s *script) { s.resume(0, h); s.resume(h, 0) }, 0, h, false,
		},
		{
			"events of other kinds, and of other windows of the aggregate, say nothing",
			func(s *script) {
				s.add("overrun", `{"session_started_at":7}`)
				s.add("checkpoint", `{}`)
				s.add("cancel", record.Cancel{SessionStartedAt: stamp(0), FiredAt: stamp(h), Parent: "s-0"})
				s.add("cancel", record.Cancel{SessionStartedAt: stamp(0), FiredAt: stamp(h), Window: "fresh"})
			}, 0, 0, false,
		},
		{
			"times of other writers are read",
			func(s *script) {
				s.add("cancel", `{"session_started_at":"2026-05-01T14:00:00.000000999+02:00","fired_at":"2026-05-01 13:00:00"}`)
			}, 0, 0, true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s script
			c.events(&s)
			history := s.fold()
			found := history.Current(at(c.host))
			require.Equal(t, at(c.want), found.StartedAt)
			require.Equal(t, c.over, found.Over())
			require.Nil(t, history.Unreadable(found.StartedAt))
			for range 20 {
				require.Equal(t, found, history.Current(at(c.host)), "whenever it is asked for")
			}
		})
	}
}

func TestUnreadable(t *testing.T) {
	const start = `"session_started_at":"2026-05-01T12:00:00Z"`
	for _, c := range []struct {
		name, kind, payload string
		concerns            map[time.Duration]bool // windows by their start, which is the event's second as well
		text                string
	}{
		{
			name: "of its window and, where that has nothing else, of those before it", kind: "cancel",
			payload:  `{` + start + `,"elapsed_seconds":"long"}`,
			concerns: map[time.Duration]bool{0: true, -time.Hour: true, time.Hour: false},
		},
		{
			name: "of any window that began before it was stored, if its start is unreadable too", kind: "extend",
			payload:  `{"session_started_at":"yesterday"}`,
			concerns: map[time.Duration]bool{0: true, -time.Hour: true, time.Hour: false},
		},
		{
			name: "also behind what cannot be read", kind: "cancel",
			payload:  `{"elapsed_seconds":"long","session_started_at":"2026-05-01T13:00:00Z"}`,
			concerns: map[time.Duration]bool{0: true, time.Hour: true, 2 * time.Hour: false},
		},
		{
			name: "one without a start is unreadable", kind: "cancel", payload: `{"reason":"wall_clock_exceeded"}`,
			concerns: map[time.Duration]bool{0: true},
			text:     "e-0 (runtime.watchdog.cancel) of run s-1: it has no session_started_at",
		},
		{
			name: "none that says of which other window it is", kind: "cancel",
			payload:  `{` + start + `,"parent":"s-0","elapsed_seconds":"long"}`,
			concerns: map[time.Duration]bool{0: false},
		},
		{
			name: "nor one of another window without a start", kind: "cancel", payload: `{"window":"fresh"}`,
			concerns: map[time.Duration]bool{0: false},
		},
		{name: "nor one of a kind that nobody reads", kind: "overrun", payload: `[`, concerns: map[time.Duration]bool{0: false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s script
			s.add(c.kind, c.payload)
			h := s.fold()
			for window, concerns := range c.concerns {
				e := h.Unreadable(at(window))
				require.Equal(t, concerns, e != nil, window)
				if concerns && c.text != "" {
					require.EqualError(t, e, c.text)
				}
				if concerns {
					require.ErrorIs(t, e, e.Err)
				}
			}
		})
	}
	t.Run("a window that other events tell of is not put in doubt by a later one's", func(t *testing.T) {
		var s script
		s.cancel(0, time.Hour)
		s.add("warning", `{`+start+`,"fraction":"half"}`)
		h := s.fold()
		require.NotNil(t, h.Unreadable(at(0)))
		require.Nil(t, h.Unreadable(at(-time.Hour)), "the window at noon is known")
	})
}

func TestStopsInRow(t *testing.T) {
	const h = time.Hour
	var s script
	stop := func(start time.Duration) { s.cancel(start, start+1) }
	stop(0)
	s.resume(0, h)
	s.complete(h, h+1)
	s.resume(h, 2*h)
	stop(2 * h)
	s.resume(2*h, 3*h)
	stop(3 * h)
	s.resume(3*h, 4*h)
	s.correct(s.cancel(4*h, 4*h+1))
	s.resume(4*h, 5*h)
	stop(5 * h)
	history := s.fold()
	for start, want := range map[time.Duration]int{0: 1, h: 0, 2 * h: 1, 3 * h: 2, 4 * h: 0, 5 * h: 1, 9 * h: 0} {
		require.Equal(t, want, history.StopsInRow(at(start)), start)
	}
	next, resumed := history.Next(at(2 * h))
	require.True(t, resumed)
	require.Equal(t, at(3*h), next)
	_, resumed = history.Next(at(5 * h))
	require.False(t, resumed)

	var circle script
	circle.cancel(0, 1)
	circle.resume(0, h)
	circle.cancel(h, h+1)
	circle.resume(h, 0)
	history = circle.fold()
	require.Equal(t, 2, history.StopsInRow(at(h)), "each window counts once")
}

// TestFirst protects that every process reads the same of two events that say different things of one window.
func TestFirst(t *testing.T) {
	var s script
	first := s.cancel(0, time.Hour)
	s.cancel(0, 2*time.Hour)
	s.complete(0, 3*time.Hour)
	s.complete(0, 4*time.Hour)
	s.correct(first)
	found := s.current()
	require.Equal(t, stamp(time.Hour), found.Stop.FiredAt, "of two cancels the first")
	require.Equal(t, at(4*time.Hour), found.CompletedAt, "of two ends by the host the last")
	var undated script
	undated.add("complete", record.Complete{SessionStartedAt: stamp(0)})
	found = undated.current()
	require.Equal(t, undated[0].Timestamp, found.CompletedAt, "one that does not say when was then")
}

func TestCorrection(t *testing.T) {
	for name, after := range map[string]bool{"a correction after its cancel": true, "one that was stored before it": false} {
		t.Run(name, func(t *testing.T) {
			var s script
			if !after {
				s.correct("e-1")
			}
			id := s.cancel(0, time.Hour)
			if after {
				s.correct(id)
			}
			found := s.current()
			require.True(t, found.Complete())
			require.Equal(t, at(time.Hour), found.CompletedAt, "when it was stopped")
			require.NotNil(t, found.Stop)
		})
	}
	t.Run("one of a cancel that nobody knows, or beside a complete, changes nothing", func(t *testing.T) {
		var s script
		s.correct("e-9")
		found := s.current()
		require.False(t, found.Over())
		id := s.cancel(0, time.Hour)
		s.complete(0, 2*time.Hour)
		s.correct(id)
		found = s.current()
		require.Equal(t, at(2*time.Hour), found.CompletedAt)
	})
}

// TestZeroHistory protects a run without events, which costs nothing to fold.
func TestZeroHistory(t *testing.T) {
	var h fold.History
	require.Equal(t, fold.Window{StartedAt: noon}, h.Current(noon))
	require.Equal(t, fold.Window{StartedAt: noon}, h.At(noon))
	require.Nil(t, h.Last())
	require.Nil(t, h.Unreadable(noon))
	require.Zero(t, h.StopsInRow(noon))
	_, resumed := h.Next(noon)
	require.False(t, resumed)
}
