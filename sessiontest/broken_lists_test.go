package sessiontest_test

import (
	"context"
	"errors"
	"slices"

	"github.com/seed62658d38/watchdog/session"
)

var brokenLists = []broken{
	{"takes each complete session for one whose command failed",
		"sessions whose command failed are listed by that, and not as complete",
		before(when(func(c *listCall) bool { return c.q.Reason == session.ReasonFailed },
			func(c *listCall) { c.q.Reason = "complete" }))},
	{"lists the oldest session first",
		"sessions are listed in the order in which they were made, the newest first",
		after(when(func(c *listCall) bool { return c.q == (session.ListQuery{Limit: 100}) },
			func(c *listCall) { slices.Reverse(c.page.Sessions) }))},
	{"takes both kinds for none", "sessions are listed by whether they are active",
		after(when(func(c *listCall) bool { return c.q.Live && c.q.Ended },
			func(c *listCall) { c.page.Sessions = nil }))},
	{"takes a parent for a pattern", "sessions are listed by parent, host and reason, exactly as they are written",
		before(when(func(c *listCall) bool { return c.q.Parent == "run-_" },
			func(c *listCall) { c.q.Parent = "" }))},
	{"uses one condition only", "the conditions of a list must all hold",
		before(when(func(c *listCall) bool { return c.q.Host != "" },
			func(c *listCall) { c.q.Live = false }))},
	{"continues a list after the time and not after the session",
		"pages of a list follow each other without a gap and without a repeat",
		after(when(func(c *listCall) bool { return c.q.Limit == 1 && c.q.After != "" && c.page.Next != "" },
			func(c *listCall) { c.page.Sessions = nil }))},
	{"pages through a list with an offset",
		"the next page of a list follows the last session, whatever was made meanwhile",
		after(func(c *listCall) {
			if c.q.After != "" && c.q.Limit == 100 {
				c.page, c.err = c.m.List(c.ctx, session.ListQuery{Limit: 100})
				c.page.Sessions = c.page.Sessions[3:]
			}
		})},
	{"lists sessions without their silence", "a listed session is as its row is",
		after(func(c *listCall) {
			for i := range c.page.Sessions {
				c.page.Sessions[i].Silence = 0
			}
		})},
	{"cannot list an unreadable session", "an unreadable session is reported on its page, and hides no other",
		after(func(c *listCall) { c.err = errors.Join(append(c.page.Unreadable, c.err)...) })},
	{"begins again where it does not know where to go on",
		"a limit of less than 1, and an After that is not the end of a page, are errors",
		before(when(func(c *listCall) bool { return c.q.After == "yesterday" },
			func(c *listCall) { c.q.After = "" }))},
	{"ignores the context of a list", "a list with a done context returns the context's error",
		before(func(c *listCall) { c.ctx = context.WithoutCancel(c.ctx) })},
}
