package fold_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
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
