package sweep

import (
	"cmp"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/session"
)

// A Handling is what a pass did about a stalled session.
type Handling string

// The handlings.
const (
	// CaseCancelled is a session that the sweeper ended.
	CaseCancelled Handling = "cancelled"
	// CaseSpared is a session that had woken up, or had ended, before its cancel.
	CaseSpared Handling = "spared"
	// CaseFailed is a session that could not be warned or cancelled. Later passes try again, at growing intervals.
	CaseFailed Handling = "failed"
	// CaseWarned is a session that was warned and has its grace now.
	CaseWarned Handling = "warned"
	// CaseEndStored is a session whose run had ended before, by its own process or another guard. Its row did not say so,
	// and does now.
	CaseEndStored Handling = "end_stored"
	// CaseWouldCancel is a session that a dry run would have cancelled.
	CaseWouldCancel Handling = "would_cancel"
)

// A Case is one stalled session in a pass.
type Case struct {
	// Session is the row as it was judged.
	Session session.Session
	// Silence is how long the session had no event: what its lease vouches for, or else by the database's clock.
	// Threshold is how long it may have none.
	Silence, Threshold time.Duration
	Handling           Handling
	// Resumed tells that the [ResumePolicy] had the session started again, in this pass. Later ones may do so.
	Resumed bool
	// StopFailed tells that the [Config].StopHook failed. The session was cancelled all the same.
	StopFailed bool
}

// Reason returns why the session is cancelled: [watchdog.SessionHostLost] if its process was found dead or cut off, and
// else [watchdog.SessionIdleTimeout].
func (c Case) Reason() watchdog.StopReason {
	if c.Session.HostLost() {
		return watchdog.SessionHostLost
	}
	return watchdog.SessionIdleTimeout
}

func (c Case) attrs() []any {
	attrs := []any{
		"run", c.Session.RunID, "reason", string(c.Reason()),
		"silence", c.Silence, "threshold", c.Threshold, "host", c.Session.Host, "attempt", c.Session.Attempt,
	}
	if l := c.Session.Expired; c.Session.HostLost() && l.ID != "" {
		attrs = append(attrs, "lease", l.ID, "looks", l.Looks, "renewed_at", l.RenewedAt)
	}
	return attrs
}

// endID returns the ID that the end of the run's window has, whoever writes it.
func (c Case) endID() string {
	events := c.stalledRun(time.Time{}, false).CancelEvents()
	return events[len(events)-1].ID
}

func (c Case) stalledRun(at time.Time, warned bool) StalledRun {
	s := c.Session
	start := s.StartedAt
	if start.IsZero() {
		start = s.CreatedAt // no watchdog ever ran this session
	}
	run := StalledRun{
		RunID: s.RunID, Parent: s.Parent, StartedAt: start, LastEventAt: s.LastEventAt,
		DecidedAt: at, Silence: c.Silence, Threshold: c.Threshold, Warned: warned, StopFailed: c.StopFailed,
	}
	if s.HostLost() {
		run.HostLost, run.Expired = true, s.Expired
	}
	if s.Lease != "" { // its LastEventAt is the attach
		run.LastEventAt, run.silence = at.Add(-c.Silence), fmt.Sprintf(" %s %d", s.Lease, s.Activity)
	}
	return run
}

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
		Reason: r.reason(), SessionStartedAt: event.Stamp(r.StartedAt), FiredAt: event.Stamp(r.DecidedAt),
		Used: record.UsedOf(r.Silence, r.Threshold), Parent: r.Parent, MeasuredSeconds: record.ExactSeconds(r.Silence),
		Author: Author, LastEventAt: event.Stamp(r.LastEventAt), StopFailed: r.StopFailed,
	}
	if r.HostLost && r.Expired.ID != "" {
		p.Lease = &record.Lease{
			ID: r.Expired.ID, Looks: record.Count(r.Expired.Looks), RenewedAt: event.Stamp(r.Expired.RenewedAt),
		}
	}
	attempt := 1
	if r.Warned {
		attempt, p.Rung = 2, 2
	}
	before := r.DecidedAt.Add(-time.Microsecond) // sorts the advisory first: the derived IDs have no order
	return []watchdog.Event{
		r.advisory(watchdog.DirectiveCancel, attempt, before),
		r.event(event.Cancel, record.Once, r.DecidedAt, p),
	}
}

// advisory returns the warning event that names a directive. There is one for each silence and directive.
func (r StalledRun) advisory(directive watchdog.DirectiveKind, attempt int, at time.Time) watchdog.Event {
	silence := cmp.Or(r.silence, event.Stamp(r.LastEventAt).String()) // it is over with the next event
	name := idleTimeout + " " + string(directive) + " " + silence
	return r.event(event.Warning, name, at, record.Trip{
		Reason: r.reason(), SessionStartedAt: event.Stamp(r.StartedAt), FiredAt: event.Stamp(r.DecidedAt),
		Used: record.UsedOf(r.Silence, r.Threshold), Directive: string(directive), Rung: record.Count(attempt),
		Parent: r.Parent, MeasuredSeconds: record.ExactSeconds(r.Silence), Author: Author,
		LastEventAt: event.Stamp(r.LastEventAt),
	})
}

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

func (r StalledRun) event(kind, name string, at time.Time, payload any) watchdog.Event {
	return watchdog.Event{
		ID:            record.EventID(r.RunID, event.Stamp(r.StartedAt).String(), kind, name),
		AggregateType: event.AggregateType, AggregateID: r.RunID, Type: kind,
		Payload: record.JSON(payload), Timestamp: event.Truncate(at),
	}
}
