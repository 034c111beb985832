package sessiontest_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

func ignoresContext(method string) fault {
	return before(method, func(c *call) { c.ctx = context.WithoutCancel(c.ctx) })
}

func listsNone(which func(c *call) bool) fault {
	return after("List", func(c *call) { setIf(which(c), &c.listed.Sessions, nil) })
}

func asks(change func(q *listQuery)) fault {
	return before("List", func(c *call) { change(&c.list) })
}

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
	return notifies(func(_ *call, told string) (all []string) {
		setIf(told == runID, &all, []string{more})
		return append(all, told)
	})
}

// year is how long a notice can wait without that being about the longest duration.
const year = 365 * 24 * time.Hour

// notes is a fault in which notices of more events are put before or after they are appended.
func notes(when func(method string, put func(c *call)) fault, wants func(c *call, e watchdog.Event) bool) fault {
	return when("Append", func(c *call) {
		for _, e := range c.events {
			if wants(c, e) {
				_ = c.m.PutNotices(c.ctx,
					notice{ID: e.ID, AggregateType: e.AggregateType, AggregateID: e.AggregateID, Type: e.Type})
			}
		}
	})
}

func claimsEach(change func(c *call, n *notice)) fault {
	return after("ClaimNotices", func(c *call) { each(c.notices, func(n *notice) { change(c, n) }) })
}

// waits is a fault in how long a notice has waited that is delayed again and again.
func waits(waited func(c *call, n notice) time.Duration) fault {
	return claimsEach(func(c *call, n *notice) {
		setIf(n.ID == "delayed" && n.Waited < 250*year, &n.Waited, waited(c, *n))
	})
}

func losesNotice(lost string) fault {
	return after("ClaimNotices", func(c *call) {
		c.notices = slices.DeleteFunc(c.notices, func(n notice) bool { return n.ID == lost })
	})
}

// delaysClaimed is a fault in which some notices are delayed when they are claimed.
func delaysClaimed(pause time.Duration, wants func(c *call, n *notice) bool) fault {
	return claimsEach(func(c *call, n *notice) {
		if wants(c, n) {
			_ = c.m.DelayNotice(c.ctx, *n, pause)
		}
	})
}

var brokenTold = []broken{
	{"ignores the context of an end", "a call with a done context", ignoresContext("End")},
	{"ignores the context of a read", "a call with a done context", ignoresContext("History")},
	{"looks for a reason anywhere in the payload", "by their reasons", after("History", func(c *call) {
		if c.history.By == session.ByReason && len(c.counts) == 2 {
			setIf(c.counts[0].Key == "hold_exceeded", &c.counts[0].Key, "reason")
		}
	})},
	{"counts days of its own zone", "by days of UTC", after("History", func(c *call) {
		if c.history.By == session.ByDay && len(c.counts) == 3 {
			c.counts[0].Count++
			c.counts[1].Count--
		}
	})},
	{"joins the rows, and loses the events without one", "by the hosts of their sessions", after("History", func(c *call) {
		if c.history.By == session.ByHost {
			c.counts = slices.DeleteFunc(c.counts, func(n session.CancelCount) bool { return n.Key == "" })
		}
	})},
	{"includes the end of a period", "by days of UTC",
		before("History", func(c *call) { c.history.To = c.history.To.Add(time.Microsecond) })},
	{"counts every kind of event", "by their reasons", after("History", func(c *call) {
		if len(c.counts) > 0 && c.hasEvent("run-3", watchdog.EventWarning) {
			c.counts[0].Count++
		}
	})},
	{"takes no rows for an error", "a period without cancels",
		after("History", func(c *call) { setIf(len(c.counts) == 0 && c.err == nil, &c.err, errNoRows) })},
	{"takes each complete session for one whose command failed", "whose command failed",
		asks(func(q *listQuery) { setIf(q.Reason == session.ReasonFailed, &q.Reason, "complete") })},
	{"lists the oldest session first", "sessions are listed newest", after("List", func(c *call) {
		if c.list == (listQuery{Limit: 100}) {
			slices.Reverse(c.listed.Sessions)
		}
	})},
	{"takes both kinds for none", "sessions are listed newest",
		listsNone(func(c *call) bool { return c.list.Live && c.list.Ended })},
	{"takes a parent for a pattern", "sessions are listed newest",
		asks(func(q *listQuery) { setIf(q.Parent == "run-_", &q.Parent, "") })},
	{"uses one condition only", "sessions are listed newest",
		asks(func(q *listQuery) { setIf(q.Host != "", &q.Live, false) })},
	{"continues a list after the time and not after the session", "pages of a list",
		listsNone(func(c *call) bool { return c.list.Limit == 1 && c.list.After != "" && c.listed.Next != "" })},
	{"pages through a list with an offset", "the next page of a list", after("List", func(c *call) {
		if c.list.After != "" && c.list.Limit == 100 {
			c.listed, c.err = c.m.List(c.ctx, listQuery{Limit: 100})
			c.listed.Sessions = c.listed.Sessions[3:]
		}
	})},
	{"lists sessions without their silence", "a listed session is",
		after("List", func(c *call) { each(c.listed.Sessions, func(s *row) { s.Silence = 0 }) })},
	{"cannot list an unreadable session", "is reported on its page",
		after("List", func(c *call) { c.err = errors.Join(append(c.listed.Unreadable, c.err)...) })},
	{"begins again where it does not know where to go on", "a limit of less than 1",
		asks(func(q *listQuery) { setIf(q.After == "yesterday", &q.After, "") })},
	{"ignores the context of a list", "a call with a done context", ignoresContext("List")},
	{"notifies of one cancel at most", "notified of each cancel", notifies(func(c *call, runID string) []string {
		setIf(c.done, &runID, "another")
		c.done = true
		return []string{runID}
	})},
	{"notifies of each attempt to cancel", "notified of each cancel", tellsBefore("RUN", "awake")},
	{"returns an error when its context ends", "listening ends", both(notifies(func(c *call, runID string) []string {
		c.done = true
		return []string{runID}
	}), after("Listen", func(c *call) { setIf(!c.done, &c.err, errors.New("the connection was closed")) }))},
	{"tells nobody of what was completed", "whoever stores it", losesNotice("cancel of completed")},
	{"tells nobody of what a sweeper cancelled", "whoever stores it", losesNotice("cancel of cancelled")},
	{"tells nobody of what a transaction decided", "whoever stores it", losesNotice("cancel of decided")},
	{"tells only of the first that are cancelled together", "whoever stores it", losesNotice("cancel of together-2")},
	{"tells of an end again that it has already", "an end that is stored already",
		notes(before, func(c *call, e watchdog.Event) bool { return c.hasEvent(e.AggregateID, e.ID) })},
	{"tells of the ends of others", "no other event",
		notes(after, func(_ *call, e watchdog.Event) bool { return e.AggregateType != watchdog.AggregateType })},
	{"tells of more time", "no other event",
		notes(after, func(_ *call, e watchdog.Event) bool { return e.Type == watchdog.EventExtend })},
	{"puts an end that it then does not store", "no other event",
		notes(after, func(c *call, _ watchdog.Event) bool { return errors.Is(c.err, watchdog.ErrInvalid) })},
	{"writes the runs of its notices in small letters", "a notice says what the event is",
		claimsEach(func(_ *call, n *notice) { n.AggregateID = strings.ToLower(n.AggregateID) })},
	{"believes the clock of who puts a notice", "a notice that is put",
		claimsEach(func(_ *call, n *notice) { setIf(n.Type == "lease.lost", &n.CreatedAt, n.CreatedAt.Add(-time.Hour)) })},
	{"puts a notice again under another name", "a notice that is put", before("PutNotices", func(c *call) {
		if len(c.notices) == 1 && c.notices[0].Type == "another" {
			c.notices[0].ID += " again"
		}
	})},
	{"puts each notice in a transaction of its own", "a notice that is put", before("PutNotices", func(c *call) {
		for _, n := range c.notices {
			if c.m.PutNotices(c.ctx, n) != nil {
				return
			}
		}
	})},
	{"claims the latest first", "so many", after("ClaimNotices", func(c *call) {
		if c.most == 3 && len(c.notices) > 0 && c.notices[0].ID == "alert-3" {
			slices.Reverse(c.notices)
		}
	})},
	{"claims all that is due", "so many", before("ClaimNotices", func(c *call) { setIf(c.most == 3, &c.most, 100) })},
	{"forgets its first claim", "so many",
		delaysClaimed(0, func(c *call, n *notice) bool { return c.most == 3 && n.ID == "alert-0" && n.Tries == 2 })},
	{"does not count", "a notice is due again", claimsEach(func(c *call, n *notice) { setIf(c.most == 1, &n.Tries, 1) })},
	{"gives a notice up", "a notice is due again",
		delaysClaimed(time.Hour, func(c *call, n *notice) bool { return c.most == 1 && n.Tries == 2 })},
	{"claims by the order in which they were put alone", "so many", after("ClaimNotices", func(c *call) {
		if c.most == 3 {
			slices.SortFunc(c.notices, func(a, b notice) int { return cmp.Compare(a.ID, b.ID) })
		}
	})},
	{"takes a finished notice that is not there for an error", "a finished notice", after("FinishNotices", func(c *call) {
		unknown := slices.ContainsFunc(c.notices, func(n notice) bool { return n.ID == "never put" })
		setIf(unknown, &c.err, errNoRows)
	})},
	{"finishes only what its caller claimed last", "a finished notice does not come again",
		before("FinishNotices", func(c *call) { setIf(len(c.notices) > 1, &c.notices, nil) })},
	{"pauses no longer than a claim lasts", "a delayed notice is due",
		before("DelayNotice", func(c *call) { setIf(c.n.ID == "alert-1", &c.pause, min(c.pause, 0)) })},
	{"pauses at least as long as a claim lasts", "a delayed notice is due",
		before("DelayNotice", func(c *call) { setIf(c.pause == 0 && c.n.ID == "alert-0", &c.n.ID, "another") })},
	{"says how old a notice is by its clock, and not how long it was delayed", "a notice says how long",
		waits(func(c *call, n notice) time.Duration { return max(c.m.Clock().Sub(n.CreatedAt), 0) })},
	{"says how long a notice was delayed last", "a notice says how long",
		waits(func(_ *call, n notice) time.Duration { return min(n.Waited, 36*time.Hour+time.Microsecond) })},
	{"counts claims as delays", "a notice says how long",
		waits(func(_ *call, n notice) time.Duration { return n.Waited + time.Duration(n.Tries-1)*time.Minute })},
	{"adds delays until the sum wraps around", "delays that are longer",
		claimsEach(func(_ *call, n *notice) { setIf(n.Waited > 250*year, &n.Waited, -time.Hour) })},
	{"takes a long pause for a clock that was set back", "a claim or a pause of weeks",
		before("DelayNotice", func(c *call) { setIf(c.n.ID == "paused", &c.pause, 0) })},
	{"takes a long claim for a clock that was set back", "a claim or a pause of weeks",
		delaysClaimed(0, func(_ *call, n *notice) bool { return n.ID == "claimed" && n.Tries == 1 })},
	{"delays what another has claimed", "a delayed notice is due", after("DelayNotice", func(c *call) {
		c.n.Tries++
		c.err = errors.Join(c.err, c.m.DelayNotice(c.ctx, c.n, c.pause))
	})},
	{"claims one if none is asked for", "claim fewer", before("ClaimNotices", func(c *call) { c.most = max(c.most, 1) })},
	{"has two claim a notice", "eight that claim at once",
		delaysClaimed(0, func(_ *call, n *notice) bool { return n.ID == "alert-3-7" && n.Tries == 1 })},
	{"loses a notice that many want", "eight that claim at once", losesNotice("alert-3-7")},
	{"has a notice twice that two put", "eight that put", after("ClaimNotices", func(c *call) {
		setIf(c.most == 100 && len(c.notices) == 10, &c.notices, append(c.notices, c.notices[:min(1, len(c.notices))]...))
	})},
	{"forgets how often it was claimed", "eight that claim, delay",
		claimsEach(func(_ *call, n *notice) { setIf(strings.HasPrefix(n.ID, "try-"), &n.Tries, 1) })},
	{"claims for a caller that has gone", "a call on the outbox with a done context", ignoresContext("ClaimNotices")},
}
