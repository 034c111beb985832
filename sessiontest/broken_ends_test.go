package sessiontest_test

import (
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// ends is a fault in the arguments of End.
func ends(change func(c *endCall, e *session.Ending)) fault {
	return before(func(c *endCall) {
		for i := range c.ends {
			change(c, &c.ends[i])
		}
	})
}

var brokenEnds = []broken{
	{"forgets the reason", "an attempt ends with the given status and reason",
		ends(func(_ *endCall, e *session.Ending) {
			if e.Status == session.Cancelled {
				e.Reason = ""
			}
		})},
	{"drops the state of an end", "an end writes the state that it brings, and without one leaves the row's",
		ends(func(_ *endCall, e *session.Ending) {
			if strings.HasPrefix(e.RunID, "with") {
				e.State = nil
			}
		})},
	{"does not compare the attempt of an end", "an end of another attempt than the row's changes nothing",
		ends(func(c *endCall, e *session.Ending) { e.Attempt = c.row(e.RunID).Attempt })},
	{"overwrites an end", "a session that has ended keeps its end",
		ends(func(c *endCall, e *session.Ending) {
			if s := c.row(e.RunID); s.Status != session.Active && s.Attempt == e.Attempt {
				s.Status, s.Reason = e.Status, e.Reason
				c.put(s)
			}
		})},
	{"takes the time of an end for that of the last event",
		"the last event of a session that ended is as old as the caller says, by the clock of the store",
		ends(func(c *endCall, e *session.Ending) {
			if c.m.Clock().Sub(c.row(e.RunID).LastEventAt) > e.Age {
				e.Age = 0
			}
		})},
	{"believes every host", "an end never moves the last event back",
		after(func(c *endCall) {
			for _, e := range c.ends {
				s := c.row(e.RunID)
				if at := c.m.Clock().Add(-e.Age); e.Age == 90*time.Minute && at.Before(s.LastEventAt) {
					s.LastEventAt = at
					c.put(s)
				}
			}
		})},
	{"takes the last event of a session for its end",
		"a session that has ended says when, by the clock of the store, however old its last event is",
		looks(func(s *session.Session) { s.EndedAt = s.LastEventAt })},
	{"keeps the lease in the row of an ended session",
		"a session that ends leaves its lease, with the time of its last activity",
		looks(when(func(s *session.Session) bool { return s.RunID == "cancel" && s.Status != session.Active },
			func(s *session.Session) { s.Lease = s.RunID }))},
}
