package sweep

import (
	"cmp"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
)

// Author is the author that the events of a sweeper name.
const Author = "system-watchdog"

// A StalledRun holds what the events about a stalled session say. A [Sweeper] makes these events by itself; a host
// that searches its own tables makes a StalledRun, and appends the events unchanged. Its methods are safe for
// concurrent use.
type StalledRun struct {
	// RunID names the run. Parent names the run that it is a layer of.
	RunID, Parent string
	// StartedAt is the start of the run's window. It must be set, and equal to the microsecond to the start that the
	// run's watchdog has: the ID of the cancel is derived from it, so that only one of the two can store a cancel.
	StartedAt time.Time
	// LastEventAt is the time of the session's last event; zero if it had none.
	LastEventAt time.Time
	// DecidedAt is when the sweeper decided.
	DecidedAt time.Time
	// Silence is how long the session had no event, Threshold how long it may have none.
	Silence, Threshold time.Duration
	// Warned tells that the session was warned before, and given a grace.
	Warned bool
	// StopFailed tells that what works on the run could not be stopped before the cancel.
	StopFailed bool
	// HostLost tells that the process of the run was found dead or cut off: the reason is then
	// [watchdog.SessionHostLost], and else [watchdog.SessionIdleTimeout]. Expired is its lease; zero if that is not known.
	HostLost bool
	Expired  session.ExpiredLease

	silence string // tells silences apart where LastEventAt does not
}

// WarningEvent returns the event that warns of the cancel before a grace. It has the directive wait. All warnings of
// one silence have the same ID, so that a store keeps one, whoever writes it and whatever reason it has.
func (r StalledRun) WarningEvent() watchdog.Event {
	return r.advisory(watchdog.DirectiveWait, 1, r.DecidedAt)
}

// CancelEvents returns the two events of the cancel, to be appended together: an advisory with the directive cancel,
// and the cancel itself. Their IDs have no reason: there is one cancel in a window, whichever reason sweepers know.
func (r StalledRun) CancelEvents() []watchdog.Event {
	p := record.Cancel{
		Reason: r.reason(), SessionStartedAt: record.Stamp(r.StartedAt), FiredAt: record.Stamp(r.DecidedAt),
		Used: record.UsedOf(r.Silence, r.Threshold), Parent: r.Parent, MeasuredSeconds: record.ExactSeconds(r.Silence),
		Author: Author, LastEventAt: record.Stamp(r.LastEventAt), StopFailed: r.StopFailed,
	}
	if r.HostLost && r.Expired.ID != "" {
		p.Lease = &record.Lease{
			ID: r.Expired.ID, Looks: record.Count(r.Expired.Looks), RenewedAt: record.Stamp(r.Expired.RenewedAt),
		}
	}
	attempt := 1
	if r.Warned {
		attempt, p.Rung = 2, 2
	}
	before := r.DecidedAt.Add(-time.Microsecond) // sorts the advisory first: the derived IDs have no order
	return []watchdog.Event{
		r.advisory(watchdog.DirectiveCancel, attempt, before),
		r.event(watchdog.EventCancel, record.Once, r.DecidedAt, p),
	}
}

// advisory returns the warning event that names a directive. There is one for each silence and directive.
func (r StalledRun) advisory(directive watchdog.DirectiveKind, attempt int, at time.Time) watchdog.Event {
	name := idleTimeout + " " + string(directive) + " " + r.silenceName()
	return r.event(watchdog.EventWarning, name, at, record.Trip{
		Reason: r.reason(), SessionStartedAt: record.Stamp(r.StartedAt), FiredAt: record.Stamp(r.DecidedAt),
		Used: record.UsedOf(r.Silence, r.Threshold), Directive: string(directive), Rung: record.Count(attempt),
		Parent: r.Parent, MeasuredSeconds: record.ExactSeconds(r.Silence), Author: Author,
		LastEventAt: record.Stamp(r.LastEventAt),
	})
}

// silenceName names the silence: it is over with the next event.
func (r StalledRun) silenceName() string {
	return cmp.Or(r.silence, record.Stamp(r.LastEventAt).String())
}

// reason returns the reason in the payloads.
func (r StalledRun) reason() string {
	if r.HostLost {
		return hostLost
	}
	return idleTimeout
}

// The reasons in the payloads. The first names the advisories of both.
var (
	idleTimeout = record.Reason(string(watchdog.SessionIdleTimeout))
	hostLost    = record.Reason(string(watchdog.SessionHostLost))
)

// event returns the event whose ID is derived from the run, its window, a kind and a name.
func (r StalledRun) event(kind, name string, at time.Time, payload any) watchdog.Event {
	return watchdog.Event{
		ID:            record.EventID(r.RunID, record.Stamp(r.StartedAt).String(), kind, name),
		AggregateType: watchdog.AggregateType, AggregateID: r.RunID, Type: kind,
		Payload: record.JSON(payload), Timestamp: record.Truncate(at),
	}
}
