package sessiontest_test

import "github.com/seed62658d38/watchdog/session"

var brokenSigns = []broken{
	{"does not compare the activity",
		"a session that was active again is neither claimed nor warned nor cancelled",
		before(func(c *cancelCall) {
			if s := c.row(c.judged.RunID); s.Lease == c.judged.Lease {
				c.judged.Activity = s.Activity
			}
		})},
	{"compares only whether there is a lease",
		"a session that another lease has taken up is neither claimed nor warned nor cancelled",
		before(func(c *claimCall) {
			if s := c.row(c.judged.RunID); s.Lease != "" && c.judged.Lease != "" {
				c.judged.Lease = s.Lease
			}
		})},
	{"does not see that a lease is gone",
		"a session whose lease has expired is neither claimed nor warned nor cancelled",
		before(func(c *warnCall) {
			if s := c.row(c.judged.RunID); s.Lease == "" && s.Activity == c.judged.Activity {
				c.judged.Lease = ""
			}
		})},
	{"does not compare the attempt of a claim",
		"a session that was attached again is neither claimed nor warned nor cancelled",
		before(func(c *claimCall) {
			if s := c.row(c.judged.RunID); s.Attempt > c.judged.Attempt {
				c.judged = s
			}
		})},
	{"warns what has ended", "a session that has ended is neither claimed nor warned nor cancelled",
		before(func(c *warnCall) {
			if s := c.row(c.judged.RunID); s.Status == session.Finished {
				s.Status = session.Active
				c.put(s)
				c.judged = s
			}
		})},
	{"finds any lease equal to none",
		"a session that was put into a lease is neither claimed nor warned nor cancelled",
		before(when(func(c *cancelCall) bool { return c.judged.Lease == "" },
			func(c *cancelCall) { c.judged.Lease = c.row(c.judged.RunID).Lease }))},
	{"warns a run that it does not know", "a run without a row is neither claimed nor warned",
		after(when(func(c *warnCall) bool { return c.err == nil && c.row(c.judged.RunID).Attempt == 0 },
			func(c *warnCall) { c.outcome = session.Done }))},
}
