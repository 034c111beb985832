package fold_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/record"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return noon.Add(d) }

func stamp(d time.Duration) record.Stamp { return record.Stamp(at(d)) }

// A script is the events of a run, a second apart. IDs are "e-0", "e-1" and so on.
type script []fold.Event

// add adds an event of a kind of the watchdog's, whose payload is a text or what becomes one, and returns its ID.
func (s *script) add(kind string, payload any) (id string) {
	text, plain := payload.(string)
	if !plain {
		text = string(record.JSON(payload))
	}
	id = fmt.Sprint("e-", len(*s))
	*s = append(*s, fold.Event{
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

func (s *randomScript) of() record.Stamp { return stamp(time.Duration(s.IntN(4)) * time.Hour) }

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
		s.add("release", record.Release{SessionStartedAt: s.of(), Opening: s.id(), ReleasedSeconds: record.Seconds(s.IntN(9))})
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
		slices.SortFunc(s.script, fold.Event.Compare) // as a store returns them
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
		require.NotEmpty(t, found.SpendName())
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
