package sessiontest_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// ignoresContext is a fault in a method.
func ignoresContext(method string) fault {
	return before(method, func(c *call) { c.ctx = context.WithoutCancel(c.ctx) })
}

// lists is a fault in the sessions of some lists.
func lists(which func(q listQuery) bool, change func(c *call)) fault {
	return after("List", func(c *call) {
		if which(c.list) {
			change(c)
		}
	})
}

// listsNone is a fault in which some lists are empty.
func listsNone(which func(c *call) bool) fault {
	return after("List", func(c *call) { setIf(which(c), &c.listed.Sessions, nil) })
}

// asks is a fault in a query of a list.
func asks(change func(q *listQuery)) fault {
	return before("List", func(c *call) { change(&c.list) })
}

// notifies is a fault in what a listener is told.
func notifies(of func(c *call, runID string) []string) fault {
	return before("Listen", func(c *call) {
		tell := c.tell
		c.tell = func(runID string) {
			for _, told := range of(c, runID) {
				tell(told)
			}
		}
	})
}

// tellsBefore is a fault in which a listener is told of one more run before it is told of another.
func tellsBefore(runID, more string) fault {
	return notifies(func(_ *call, told string) []string {
		if told == runID {
			return []string{more, told}
		}
		return []string{told}
	})
}

var brokenLists = []broken{
	{"ignores the context of an end", "a write with a done context", ignoresContext("End")},
	{"ignores the context of a read", "a read with a done context", ignoresContext("History")},
	{"looks for a reason anywhere in the payload", "by their reasons", after("History", func(c *call) {
		if c.history.By == session.ByReason && len(c.counts) == 2 {
			setIf(c.counts[0].Key == "hold_exceeded", &c.counts[0].Key, "reason")
		}
	})},
	{"counts days of its own zone", "by days of UTC", after("History", func(c *call) {
		if c.history.By == session.ByDay && len(c.counts) == 2 {
			c.counts[0].Count++
			c.counts[1].Count--
		}
	})},
	{"joins the rows, and loses the events without one", "by the hosts of their sessions", after("History", func(c *call) {
		if c.history.By == session.ByHost {
			c.counts = slices.DeleteFunc(c.counts, func(n session.CancelCount) bool { return n.Key == "" })
		}
	})},
	{"includes the end of a period", "a period of time",
		before("History", func(c *call) { c.history.To = c.history.To.Add(time.Microsecond) })},
	{"counts every kind of event", "only cancels are counted", after("History", func(c *call) {
		if len(c.counts) > 0 && c.hasEvent("run-1", watchdog.EventWarning) {
			c.counts[0].Count++
		}
	})},
	{"takes no rows for an error", "a period without cancels",
		after("History", func(c *call) { setIf(len(c.counts) == 0 && c.err == nil, &c.err, errNoRows) })},
	{"takes each complete session for one whose command failed", "whose command failed",
		asks(func(q *listQuery) { setIf(q.Reason == session.ReasonFailed, &q.Reason, "complete") })},
	{"lists the oldest session first", "listed in the order",
		lists(func(q listQuery) bool { return q == listQuery{Limit: 100} },
			func(c *call) { slices.Reverse(c.listed.Sessions) })},
	{"takes both kinds for none", "they are active", listsNone(func(c *call) bool { return c.list.Live && c.list.Ended })},
	{"takes a parent for a pattern", "by parent", asks(func(q *listQuery) { setIf(q.Parent == "run-_", &q.Parent, "") })},
	{"uses one condition only", "conditions of a list", asks(func(q *listQuery) { setIf(q.Host != "", &q.Live, false) })},
	{"continues a list after the time and not after the session", "pages of a list",
		listsNone(func(c *call) bool { return c.list.Limit == 1 && c.list.After != "" && c.listed.Next != "" })},
	{"pages through a list with an offset", "the next page of a list",
		lists(func(q listQuery) bool { return q.After != "" && q.Limit == 100 }, func(c *call) {
			c.listed, c.err = c.m.List(c.ctx, listQuery{Limit: 100})
			c.listed.Sessions = c.listed.Sessions[3:]
		})},
	{"lists sessions without their silence", "a listed session is",
		after("List", func(c *call) { each(c.listed.Sessions, func(s *row) { s.Silence = 0 }) })},
	{"cannot list an unreadable session", "is reported on its page",
		after("List", func(c *call) { c.err = errors.Join(append(c.listed.Unreadable, c.err)...) })},
	{"begins again where it does not know where to go on", "a limit of less than 1",
		asks(func(q *listQuery) { setIf(q.After == "yesterday", &q.After, "") })},
	{"ignores the context of a list", "a list with a done context", ignoresContext("List")},
	{"notifies of one cancel at most", "notified of each cancel", notifies(func(c *call, runID string) []string {
		setIf(c.done, &runID, "another")
		c.done = true
		return []string{runID}
	})},
	{"notifies of each attempt to cancel", "a cancel that changed nothing", tellsBefore("stalled", "awake")},
	{"returns an error when its context ends", "listening ends", both(notifies(func(c *call, runID string) []string {
		c.done = true
		return []string{runID}
	}), after("Listen", func(c *call) { setIf(!c.done, &c.err, errors.New("the connection was closed")) }))},
}
