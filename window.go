package watchdog

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// sameStart bounds how far a host's start may lie after the recorded one and still be the same, kept in whole seconds.
const sameStart = time.Second

// A window is what the events of a run say of its latest stretch of time.
type window struct {
	startedAt time.Time
	extended  time.Duration
	stop      *Stop
	warned    map[warningKey]bool
}

// A warningKey tells warnings of one window apart: after an extension the same fraction comes at another time.
type warningKey struct{ fraction, budgetSeconds float64 }

// windows are those that the events of a run tell of, by their starts. The order of the events does not matter, because
// the clocks of the hosts that wrote them need not agree.
type windows map[time.Time]*window

func foldEvents(events []Event) (windows, error) {
	if len(events) == 0 {
		return nil, nil
	}
	all := windows{}
	for _, e := range events {
		payload, err := decodePayload(e)
		if err != nil {
			return nil, err
		}
		if payload == nil {
			continue
		}
		start := payload.start()
		if all[start] == nil {
			all[start] = &window{startedAt: start}
		}
		payload.applyTo(all[start], e)
	}
	return all, nil
}

// latest returns the window that the run is in, of which the host says that it began at hostStart.
func (all windows) latest(hostStart time.Time) window {
	var latest *window
	for _, w := range all {
		if latest == nil || w.startedAt.After(latest.startedAt) {
			latest = w
		}
	}
	if latest == nil || latest.endedBefore(hostStart) {
		return window{startedAt: hostStart}
	}
	return *latest
}

// endedBefore reports whether the host opened a window of its own after this one: later than its cancel or, where it
// has none, later than what keeping whole seconds explains.
func (w *window) endedBefore(hostStart time.Time) bool {
	if w.stop != nil {
		return hostStart.After(w.stop.FiredAt) && hostStart.After(w.startedAt)
	}
	return hostStart.Sub(w.startedAt) >= sameStart
}

// warnedOf counts how many of the fractions, in their order, were warned of under the budget as it is now.
func (w *window) warnedOf(fractions []float64, budget time.Duration) int {
	for i, fraction := range fractions {
		if !w.warned[warningKey{fraction, budget.Seconds()}] {
			return i
		}
	}
	return len(fractions)
}

// A payload is what an event of one kind adds to its window.
type payload interface {
	start() time.Time
	applyTo(w *window, e Event)
}

// The payloads that tell of a window.
type (
	cancelPayload  record.Cancel
	resumePayload  record.Resume
	extendPayload  record.Extend
	warningPayload record.Warning
)

// decodePayload reads the payload of an event that tells of a window; for every other kind it returns nil.
func decodePayload(e Event) (payload, error) {
	var p payload
	switch e.Type {
	case EventCancel:
		p = &cancelPayload{}
	case EventResume:
		p = &resumePayload{}
	case EventExtend:
		p = &extendPayload{}
	case EventWarning:
		p = &warningPayload{}
	default:
		return nil, nil
	}
	if err := json.Unmarshal(e.Payload, p); err != nil {
		return nil, fmt.Errorf("%w %s (%s) of run %s: %w", ErrUnreadableEvent, e.ID, e.Type, e.AggregateID, err)
	}
	if p.start().IsZero() {
		return nil, fmt.Errorf("%w %s (%s) of run %s: it has no session_started_at", ErrUnreadableEvent, e.ID, e.Type, e.AggregateID)
	}
	return p, nil
}

func (p *cancelPayload) start() time.Time  { return time.Time(p.SessionStartedAt) }
func (p *resumePayload) start() time.Time  { return time.Time(p.SessionStartedAt) }
func (p *extendPayload) start() time.Time  { return time.Time(p.SessionStartedAt) }
func (p *warningPayload) start() time.Time { return time.Time(p.SessionStartedAt) }

func (p *cancelPayload) applyTo(w *window, e Event) {
	if w.stop == nil {
		w.stop = stopOf((*record.Cancel)(p), e.AggregateID)
	}
}

func (p *resumePayload) applyTo(*window, Event) {}

func (p *extendPayload) applyTo(w *window, _ Event) {
	w.extended = verdict.Sum(w.extended, max(record.Duration(p.ExtensionSeconds), 0))
}

func (p *warningPayload) applyTo(w *window, _ Event) {
	if w.warned == nil {
		w.warned = map[warningKey]bool{}
	}
	w.warned[warningKey{p.Fraction, p.ConfiguredBudgetSeconds}] = true
}
