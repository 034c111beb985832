package fold

import (
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A payload is what an event of one kind says of its window.
type payload interface {
	of() record.Window
	applyTo(h *History, w *Window, e *event.Event)
}

// The payloads that tell of a window. Errors about what cannot be read name these types.
type (
	cancelPayload     record.Cancel
	completePayload   record.Complete
	correctionPayload record.Correction
	resumePayload     record.Resume
	extendPayload     record.Extend
	warningPayload    record.Warning
	wrapUpPayload     record.WrapUp
	tripPayload       record.Trip
	progressPayload   record.Progress
	holdPayload       record.Hold
	releasePayload    record.Release
)

// payloadOf returns what the payload of an event is read to, nil for a kind that tells of no window. It is no map: one
// is made when a program starts, and with it all that the payloads do is linked by every program.
func payloadOf(kind string) payload {
	switch kind {
	case event.Cancel:
		return &cancelPayload{}
	case event.Complete:
		return &completePayload{}
	case event.Correction:
		return &correctionPayload{}
	case event.Resume:
		return &resumePayload{}
	case event.Extend:
		return &extendPayload{}
	case event.Warning:
		return &warningPayload{}
	case event.WrapUp:
		return &wrapUpPayload{}
	case event.Wait, event.Retry, event.Unstuck:
		return &tripPayload{}
	case event.Progress:
		return &progressPayload{}
	case event.Hold:
		return &holdPayload{}
	case event.Release:
		return &releasePayload{}
	}
	return nil
}

func windowOf(start event.Stamp, parent, fresh string) record.Window {
	return record.Window{SessionStartedAt: start, Parent: parent, Window: fresh}
}

func (p *cancelPayload) of() record.Window   { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *completePayload) of() record.Window { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *correctionPayload) of() record.Window {
	return windowOf(p.SessionStartedAt, p.Parent, p.Window)
}
func (p *resumePayload) of() record.Window   { return windowOf(p.SessionStartedAt, p.Parent, "") }
func (p *extendPayload) of() record.Window   { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *warningPayload) of() record.Window  { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *wrapUpPayload) of() record.Window   { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *tripPayload) of() record.Window     { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *progressPayload) of() record.Window { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *holdPayload) of() record.Window     { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }
func (p *releasePayload) of() record.Window  { return windowOf(p.SessionStartedAt, p.Parent, p.Window) }

func (p *cancelPayload) applyTo(h *History, w *Window, e *event.Event) {
	if _, known := h.cancels[e.ID]; known { // it was asked for by its ID, too
		return
	}
	if w.Stop == nil {
		w.Stop = (*record.Cancel)(p)
	}
	if h.cancels == nil {
		h.cancels = map[string]time.Time{}
	}
	h.cancels[e.ID] = w.StartedAt
}

func (p *completePayload) applyTo(_ *History, w *Window, e *event.Event) {
	if w.CompletedAt = time.Time(p.CompletedAt); w.CompletedAt.IsZero() {
		w.CompletedAt = e.Timestamp
	}
}

func (p *correctionPayload) applyTo(h *History, _ *Window, _ *event.Event) {
	h.corrected = append(h.corrected, p.Cancel)
}

func (p *resumePayload) applyTo(h *History, w *Window, e *event.Event) {
	w.OpenedBy = e.ID
	h.after[time.Time(p.PreviousStartedAt)] = w.StartedAt
}

func (p *extendPayload) applyTo(_ *History, w *Window, _ *event.Event) {
	w.Extended = verdict.Sum(w.Extended, max(record.Duration(p.ExtensionSeconds), 0))
	for i := range p.Spend {
		if w.Given == nil {
			w.Given = map[Key]int64{}
		}
		key := KeyOf("", "", &p.Spend[i])
		w.Given[key] = verdict.AddCount(w.Given[key], max(int64(p.Spend[i].Extension), 0))
	}
}

func (p *warningPayload) applyTo(_ *History, w *Window, _ *event.Event) {
	if p.Fraction == 0 { // of a directive, which nobody asks for again
		return
	}
	of := requestOf(p.ConfiguredBudgetSeconds, p.Spend)
	of.Fraction = p.Fraction
	w.ask(of)
}

func (p *wrapUpPayload) applyTo(_ *History, w *Window, _ *event.Event) {
	w.ask(requestOf(p.ConfiguredBudgetSeconds, p.Spend))
}

func (p *tripPayload) applyTo(_ *History, w *Window, e *event.Event) {
	if w.directives == nil {
		w.directives = map[string]Directive{}
	}
	given := Directive{Rung: int(p.Rung), On: KeyOf(verdict.Limit(record.LimitOf(p.Reason)), p.Hold, p.Spend)}
	if p.Spend != nil {
		given.Allowed = int64(p.Spend.Allowed)
	}
	w.directives[e.ID] = given
	w.reset(p.Resets, e)
}

func (p *progressPayload) applyTo(_ *History, w *Window, e *event.Event) { w.reset(p.Resets, e) }

func (p *holdPayload) applyTo(_ *History, w *Window, e *event.Event) {
	known := w.pauses[e.ID]
	known.Hold, known.Layer, known.Opener, known.opened = p.Hold, p.Layer, p.Opener, true
	known.Opened, known.Cap = record.Duration(p.OpenedSeconds), record.Duration(p.CapSeconds)
	w.setPause(e.ID, known)
}

func (p *releasePayload) applyTo(_ *History, w *Window, e *event.Event) {
	w.reset(p.Resets, e)
	if p.Opening != "" {
		known := w.pauses[p.Opening]
		known.release(record.Duration(p.ReleasedSeconds), p.TakenBy == "")
		w.setPause(p.Opening, known)
	}
}

// A Key names a limit of a run and its ladder: a limit of time, the caps of the holds with a key, or a counted limit.
// The zero Key stands for the wall clock where a budget is meant.
type Key struct {
	Limit, Hold, Tool, Scope string
	Count                    bool // it is a counted limit
}

// A request is a budget that the host was warned of at a fraction of it, or, without one, asked to wrap up under.
type request struct {
	Key
	Budget, Fraction record.Seconds
}

// KeyOf names the ladder that a trip is on, of a counted limit if it has a spend. A hold has one for its cap; its
// silence is on that of idle.
func KeyOf(limit verdict.Limit, hold string, s *record.Spend) Key {
	switch {
	case s != nil:
		key := CountKey(s.Limit, s.Tool)
		key.Scope = s.Scope
		return key
	case limit == verdict.Hold:
		return Key{Limit: string(limit), Hold: hold}
	}
	return Key{Limit: string(limit)}
}

// CountKey names a counted limit.
func CountKey(limit, tool string) Key {
	return Key{Limit: limit, Tool: tool, Count: true}
}

// A Directive is one that the host was given.
type Directive struct {
	Rung    int
	On      Key
	Allowed int64 // by a counted limit, with its extensions
}

// requestOf names a budget of one limit, that of the wall clock in seconds.
func requestOf(wallClock record.Seconds, s *record.Spend) request {
	if s == nil {
		return request{Budget: wallClock}
	}
	return request{Key: KeyOf("", "", s), Budget: record.Seconds(s.Allowed)}
}

// Elapsed is what was used of the limit that a cancel is about. What elapsed is floored in it; the two times tell it
// exactly, unless the clock was set in between.
func Elapsed(p *record.Cancel) time.Duration {
	elapsed := record.Duration(p.ElapsedSeconds)
	if p.MeasuredSeconds != 0 {
		elapsed = record.Duration(p.MeasuredSeconds)
	}
	if p.Reason != record.LimitReason(string(verdict.WallClock)) {
		return elapsed
	}
	exact := time.Time(p.FiredAt).Sub(time.Time(p.SessionStartedAt)) - record.Duration(p.PausedSeconds)
	if exact.Truncate(time.Second) == elapsed {
		return exact
	}
	return elapsed
}
