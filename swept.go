package watchdog

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
)

// SweepAuthor is the author that the events of a sweeper name.
const SweepAuthor = "system-watchdog"

// A Swept is a session in a database that had nothing new for too long, as the sweeper that found it has it. It makes the events that say so; a host that keeps
// its own sessions appends them as they are. Its methods are safe for concurrent use.
type Swept struct {
	// RunID names the run, Parent the run that it is a layer of.
	RunID, Parent string
	// StartedAt is the start of the run's window, which must be set. It is to the microsecond what the run's watchdog has, so that of the two only one can write the cancel.
	StartedAt time.Time
	// LastEventAt is when the session had its last event; zero if it had none.
	LastEventAt time.Time
	// At is when the sweeper decided.
	At time.Time
	// Silence is how long the session had nothing new, Threshold how long it may.
	Silence, Threshold time.Duration
	// Warned tells that the session was warned, and had a grace.
	Warned bool
}

// Warning is the event that warns of the cancel before a grace: the directive wait. It is the same, and so stored once, whoever warns of this
// silence.
func (s Swept) Warning() Event {
	return s.advisory(DirectiveWait, 1, s.At)
}

// Cancel are the two events of the cancel, to be stored together: an advisory, and the cancel itself with the reason [SessionIdleTimeout].
func (s Swept) Cancel() []Event {
	p := record.Cancel{
		Reason: reasonOfCode(SessionIdleTimeout), SessionStartedAt: record.Stamp(s.StartedAt), FiredAt: record.Stamp(s.At),
		ElapsedSeconds: record.WholeSeconds(s.Silence), ConfiguredBudgetSeconds: s.Threshold.Seconds(), Parent: s.Parent,
		MeasuredSeconds: record.ExactSeconds(s.Silence), Author: SweepAuthor, LastEventAt: record.Stamp(s.LastEventAt),
	}
	attempt := 1
	if s.Warned {
		attempt, p.Rung = 2, 2
	}
	before := s.At.Add(-time.Microsecond) // so that it is read first: neither ID can be chosen
	return []Event{s.advisory(DirectiveCancel, attempt, before), eventOf(s.RunID, s.eventID(EventCancel, record.Once), EventCancel, s.At, p)}
}

// advisory is the warning that tells of a directive, which is one for each silence.
func (s Swept) advisory(directive DirectiveKind, attempt int, at time.Time) Event {
	reason := reasonOfCode(SessionIdleTimeout)
	return eventOf(s.RunID, s.eventID(EventWarning, reason+" "+string(directive)+" "+stampText(s.LastEventAt)), EventWarning, at, record.Trip{
		Reason: reason, SessionStartedAt: record.Stamp(s.StartedAt), FiredAt: record.Stamp(s.At),
		ElapsedSeconds: record.WholeSeconds(s.Silence), ConfiguredBudgetSeconds: s.Threshold.Seconds(),
		Directive: string(directive), Rung: attempt, Parent: s.Parent, MeasuredSeconds: record.ExactSeconds(s.Silence),
		Author: SweepAuthor, LastEventAt: record.Stamp(s.LastEventAt),
	})
}

func (s Swept) eventID(kind, name string) string {
	return record.EventID(s.RunID, s.StartedAt, kind, name)
}

func stampText(t time.Time) string { return record.Stamp(t).String() }

func eventOf(runID, id, kind string, at time.Time, payload any) Event {
	return Event{ID: id, AggregateType: AggregateType, AggregateID: runID, Type: kind, Payload: record.JSON(payload), Timestamp: record.Truncate(at)}
}
