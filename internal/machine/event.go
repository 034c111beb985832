package machine

import (
	"fmt"
	"strconv"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Moment is a run at an instant, as its events tell of it.
type Moment struct {
	*Name
	At     time.Time
	Worked time.Duration // what the wall clock showed
	Budget time.Duration // the length of the wall clock, with its extensions
}

func (m Moment) event(kind, name string, payload any) event.Event {
	return m.Event(kind, m.At, name, payload)
}

// events are those of a notice: for a directive on a ladder that is carried out two, the decision and the directive.
func (m Moment) events(o *Notice) []event.Event {
	v := &o.Verdict
	switch {
	case !o.Directive():
		return []event.Event{m.warning(o)}
	case v.Directive == verdict.DirectWrapUp:
		return []event.Event{m.wrapUp(o)}
	}
	p := record.Trip{
		Reason: o.Reason, SessionStartedAt: event.Stamp(m.StartedAt), FiredAt: event.Stamp(o.At),
		Used:      record.UsedOf(v.Used, v.Allowed),
		Directive: string(v.Directive), Rung: record.Count(v.Rung), Hold: v.Hold, Note: o.Note, ObserveOnly: o.Observed(),
		Parent: m.Parent, MeasuredSeconds: record.ExactSeconds(v.Used), Window: m.fresh, Resets: o.replaces, Spend: o.Spend,
	}
	decision := m.event(event.Warning, "", p)
	if decision.ID = o.ids[0]; o.Observed() {
		return []event.Event{decision}
	}
	directive := m.event(event.Prefix+string(v.Directive), "", p)
	directive.ID = o.ids[1]
	return []event.Event{decision, directive}
}

// wrapUp is the same for all processes that watch the run.
func (m Moment) wrapUp(o *Notice) event.Event {
	v := &o.Verdict
	reason, limit, allowed := limitOf(o.Spend, v.Allowed)
	return m.event(event.WrapUp, limit+" of "+allowed, record.WrapUp{
		Reason: reason, SessionStartedAt: event.Stamp(m.StartedAt), AskedAt: event.Stamp(o.At),
		Used:             record.UsedOf(v.Used, v.Allowed),
		RemainingSeconds: record.WholeSeconds(max(v.Allowed-v.Used, 0)), Note: o.Note, Parent: m.Parent, Window: m.fresh,
		Spend: o.Spend,
	})
}

// limitOf is the limit of a warning or a wrap-up as its event has it, and what names that and what it allows for the ID
// of the event: another one after an extension.
func limitOf(s *record.Spend, budget time.Duration) (reason, name, allowed string) {
	if s == nil {
		wall := string(verdict.WallClock)
		return wall, wall, budget.String()
	}
	return s.Limit, s.Limit + " " + s.Tool + " ", strconv.FormatInt(int64(s.Allowed), 10)
}

func (m Moment) warning(o *Notice) event.Event {
	v := &o.Verdict
	reason, limit, allowed := limitOf(o.Spend, v.Allowed)
	name := fmt.Sprintf("%v of %v", v.Fraction, allowed)
	if o.Spend != nil {
		name = fmt.Sprintf("%v of %s %s", v.Fraction, limit, allowed)
	}
	return m.event(event.Warning, name, record.Warning{
		Reason: reason, SessionStartedAt: event.Stamp(m.StartedAt), WarnedAt: event.Stamp(o.At),
		Used:     record.UsedOf(v.Used, v.Allowed),
		Fraction: record.Seconds(v.Fraction), RemainingSeconds: record.WholeSeconds(o.Remaining),
		Parent: m.Parent, Window: m.fresh, Spend: o.Spend,
	})
}

func (m Moment) progress(resets []string) event.Event {
	return m.event(event.Progress, "", record.Progress{
		SessionStartedAt: event.Stamp(m.StartedAt), ProgressedAt: event.Stamp(m.At), Resets: resets, Parent: m.Parent,
		Window: m.fresh,
	})
}

func (m Moment) hold(key, layer string, p *verdict.Pause, by *record.Opener) event.Event {
	e := m.event(event.Hold, "", record.Hold{
		Hold: key, SessionStartedAt: event.Stamp(m.StartedAt), OpenedAt: event.Stamp(m.At),
		OpenedSeconds: record.ExactSeconds(p.Opened), CapSeconds: record.FloatSeconds(p.Cap), Layer: layer,
		Parent: m.Parent, Window: m.fresh, Opener: by,
	})
	e.ID = p.ID
	return e
}

// release says that a hold was closed. One that stopped the wall clock has one release by its opener, and one by each
// hold that took it over: its opener may live all the same.
func (m Moment) release(key, opening, takenBy string, elapsed time.Duration, resets []string) event.Event {
	name := opening
	if takenBy != "" {
		name += " " + takenBy
	}
	return m.event(event.Release, name, record.Release{
		Hold: key, SessionStartedAt: event.Stamp(m.StartedAt), ReleasedAt: event.Stamp(m.At),
		ReleasedSeconds: record.ExactSeconds(elapsed), Resets: resets, Parent: m.Parent, Window: m.fresh, Opening: opening,
		TakenBy: takenBy,
	})
}

// Resume opens the window that begins then, after the one that the run is in. Its name is that window's, so that it has
// one successor whoever resumes.
func (m Moment) Resume(fresh time.Time) event.Event {
	return m.event(event.Resume, record.Once, record.Resume{
		SessionStartedAt: event.Stamp(fresh), PreviousStartedAt: event.Stamp(m.StartedAt), Parent: m.Parent,
	})
}

// Extend gives the window d more, or counted limits what they say.
func (m Moment) Extend(d time.Duration, spend []record.Spend) event.Event {
	if d == 0 && m.Budget == verdict.Never {
		m.Budget = 0
	}
	return m.event(event.Extend, "", record.Extend{
		SessionStartedAt: event.Stamp(m.StartedAt), ExtendedAt: event.Stamp(m.At),
		ElapsedSeconds: record.WholeSeconds(m.Worked), ExtensionSeconds: record.FloatSeconds(d),
		ConfiguredBudgetSeconds: record.FloatSeconds(m.Budget + d), Parent: m.Parent, Window: m.fresh, Spend: spend,
	})
}

// Interrupt says that the signal ended the run. An empty name makes an event of its own.
func (m Moment) Interrupt(signal, name string) event.Event {
	return m.event(event.Interrupt, name, record.Interrupt{
		Signal: signal, SessionStartedAt: event.Stamp(m.StartedAt), InterruptedAt: event.Stamp(m.At),
		ElapsedSeconds: record.WholeSeconds(m.Worked), Parent: m.Parent, Window: m.fresh,
	})
}

// Overrun says what became of a call in the run, and nothing of what its work returned. The note is bounded already.
func (m Moment) Overrun(call record.Overrun) event.Event {
	call.Key = record.Note(call.Key)
	call.SessionStartedAt, call.OverranAt = event.Stamp(m.StartedAt), event.Stamp(m.At)
	call.Parent, call.Window = m.Parent, m.fresh
	return m.event(event.Overrun, "", call)
}

// Correction says that what the cancel ended had finished by itself. There is one for each cancel.
func (m Moment) Correction(cancel string) event.Event {
	return m.event(event.Correction, cancel, record.Correction{
		Cancel: cancel, SessionStartedAt: event.Stamp(m.StartedAt), CorrectedAt: event.Stamp(m.At),
		Parent: m.Parent, Window: m.fresh,
	})
}

// An Entry is what a run has to store of one decision, all of it or nothing: a directive, a warning, a pause. It waits
// from the decision on until the store has it. The host is told of its Notice once that was tried.
type Entry struct {
	State
	Notice *Notice              // nil if the host is told of nothing
	make   func() []event.Event // makes the events when they are needed first; nil if they are there
	events []event.Event
	lost   *Loss
}

// A Loss is what the log is told if the first try at an entry fails, with these attributes.
type Loss struct {
	What string
	Args []any
}

// NewEntry is what waits of events that are there. A nil loss tells the log nothing.
func NewEntry(lost *Loss, events ...event.Event) *Entry { return &Entry{lost: lost, events: events} }

// laterEntry is what waits of one event that is made when it is needed first.
func laterEntry(kind string, e func() event.Event) *Entry {
	return &Entry{
		lost: &Loss{"an event", []any{"event", kind}}, make: func() []event.Event { return []event.Event{e()} },
	}
}

// Events returns the events of the entry.
func (e *Entry) Events() []event.Event {
	if e.make != nil {
		e.events, e.make = e.make(), nil
	}
	return e.events
}

// Lost is what the log is told if the first try fails, nil for nothing.
func (e *Entry) Lost() *Loss {
	o := e.Notice
	switch {
	case o == nil:
		return e.lost
	case !o.Directive():
		return &Loss{"a warning", []any{"fraction", o.Verdict.Fraction}}
	}
	return &Loss{"a directive", []any{"directive", string(o.Verdict.Directive), "reason", record.Code(o.Reason)}}
}

// A Notice is a warning or a directive, as it was decided.
type Notice struct {
	Verdict   verdict.Verdict
	Reason    string        // of a directive
	Remaining time.Duration // of a warning about the wall clock
	Note      string
	At        time.Time
	Spend     *record.Spend // of a counted limit

	ids      [2]string // of the events of a directive, in the order in which those of one moment are read
	replaces []string  // the directives that it takes the place of
}

// Directive reports whether it asks the host for something, rather than warning it.
func (o *Notice) Directive() bool { return o.Verdict.Action != verdict.Warn }

// Observed tells a cancel that is recorded and not carried out.
func (o *Notice) Observed() bool { return o.Verdict.Action == verdict.Cancel }

func (o *Notice) begins() bool {
	return o.Verdict.Directive == verdict.DirectRetry || o.Verdict.Directive == verdict.DirectUnstick
}

// onLadder reports whether it is a rung of a ladder, which stands until there is progress.
func (o *Notice) onLadder() bool {
	return o.Verdict.Directive != verdict.DirectWrapUp && o.Verdict.Directive != verdict.DirectCancel
}
