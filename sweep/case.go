package sweep

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
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

// attrs returns the case for the log.
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

// stalledRun returns the case as its events have it.
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
