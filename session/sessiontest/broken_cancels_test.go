package sessiontest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
)

// boasts is a fault in which a cancel that did nothing returns Done.
func boasts(which func(c *call) bool) fault {
	return after("Cancel", func(c *call) { setIf(c.outcome == changed && which(c), &c.outcome, done) })
}

// judges is a fault in what a method compares a session with: the row that there is.
func judges(method string, change func(judged *row, there row)) fault {
	return before(method, func(c *call) { change(&c.judged, c.there()) })
}

// revives is a fault in which a method takes what has ended for active.
func revives(method string, which func(judged, there row) bool) fault {
	return before(method, func(c *call) {
		if s := c.there(); s.Status == finished && which(c.judged, s) {
			s.Status = active
			c.put(s)
			setIf(method == "Warn", &c.judged, s)
		}
	})
}

// misclaims is a fault in the outcome of a claim on the row that there was.
func misclaims(from, to session.Outcome, which func(c *call, before row) bool) fault {
	return around("Claim", func(c *call, next func()) {
		before := c.there()
		next()
		setIf(c.outcome == from && which(c, before), &c.outcome, to)
	})
}

// stillWarned is a fault in which rows say that a session was warned though that is void.
func stillWarned(which func(s row) bool) fault {
	return after("Session", func(c *call) {
		warned := c.hasEvent(c.runID, event.Warning) && c.s.Attempt == 1 && c.s.Status == active
		setIf(warned && c.s.WarnedAt.IsZero() && which(c.s), &c.s.WarnedAt, c.m.Clock())
	})
}

func misjudges(change func(c *call, one *batched)) fault {
	return before("CancelAll", func(c *call) { each(c.all, func(one *batched) { change(c, one) }) })
}

// boastsTogether is a fault in which the cancel of one of several sessions returns Done.
func boastsTogether(instead session.Outcome, which func(c *call, s row) bool) fault {
	return after("CancelAll", func(c *call) {
		for i, outcome := range c.outcomes {
			setIf(outcome == instead && which(c, c.all[i].Judged), &c.outcomes[i], done)
		}
	})
}

// cancelsAndThen is a fault in the row of one run after each cancel.
func cancelsAndThen(runID string, change func(s *row, c *call)) fault {
	return after("Cancel", func(c *call) {
		if c.err == nil && c.judged.RunID == runID {
			c.edit(runID, func(s *row) { change(s, c) })
		}
	})
}

func wantsStart(s *row, c *call) {
	s.Start = session.WantedStart{Key: c.cancel.Events[0].ID, Tries: 1, Due: s.CreatedAt.Add(time.Hour)}
}

func claimsStarts(change func(s *row)) fault {
	return after("ClaimStart", func(c *call) {
		if change(&c.s); c.err == nil {
			c.put(c.s)
		}
	})
}

func putsOff(runID string, change func(c *call, there row)) fault {
	return before("PutOffStart", func(c *call) {
		if c.s.RunID == runID {
			change(c, c.row(runID))
		}
	})
}

var brokenCancels = []broken{
	{"forgets how often a run was resumed", "a session that has not changed",
		before("Cancel", func(c *call) { setIf(c.cancel.Resumes == 3, &c.cancel.Resumes, 0) })},
	{"stores the last event only", "the events of a cancel", before("Cancel", func(c *call) {
		if events := c.cancel.Events; len(events) == 2 && events[1].ID == "terminal" {
			c.cancel.Events = events[1:]
		}
	})},
	{"changes the row before it validates the events", "a cancel or a warning with", after("Cancel", func(c *call) {
		if c.judged.Status = cancelled; errors.Is(c.err, event.ErrInvalid) {
			c.put(c.judged)
		}
	})},
	{"cancels without an event", "a cancel or a warning with", before("Cancel", func(c *call) {
		setIf(len(c.cancel.Events) == 0, &c.cancel.Events, []event.Event{{
			ID: "made up", AggregateType: event.AggregateType, AggregateID: c.judged.RunID,
			Type: event.Cancel, Payload: []byte(`{}`), Timestamp: c.judged.CreatedAt,
		}})
	})},
	{"finds NULL different from NULL", "a session without events is cancelled", fails("Cancel", nil, func(c *call) bool {
		c.outcome, c.err = changed, c.ctx.Err()
		return c.judged.LastEventAt.IsZero()
	})},
	{"does not compare the last event", "a session that has changed", judges("Cancel", func(judged *row, there row) {
		setIf(!judged.LastEventAt.IsZero(), &judged.LastEventAt, there.LastEventAt)
	})},
	{"takes NULL for any last event", "a session that has changed", judges("Cancel", func(judged *row, there row) {
		setIf(judged.LastEventAt.IsZero(), &judged.LastEventAt, there.LastEventAt)
	})},
	{"does not compare the attempt of a cancel", "a session that has changed",
		judges("Cancel", func(judged *row, there row) { setIf(there.RunID == "run-1", &judged.Attempt, there.Attempt) })},
	{"cancels what has finished", "a session that has changed",
		revives("Cancel", func(judged, _ row) bool { return judged.Lease == "" })},
	{"returns Done for a run that it does not know", "a session that has changed",
		boasts(func(c *call) bool { return c.there().Attempt == 0 })},
	{"does not compare the activity", "a session that has changed", judges("Cancel", func(judged *row, there row) {
		setIf(there.Lease == judged.Lease, &judged.Activity, there.Activity)
	})},
	{"compares only whether there is a lease", "a session that has changed", judges("Claim", func(judged *row, there row) {
		setIf(there.Lease != "" && judged.Lease != "", &judged.Lease, there.Lease)
	})},
	{"does not see that a lease is gone", "a session that has changed", judges("Warn", func(judged *row, there row) {
		setIf(there.Lease == "" && there.Activity == judged.Activity, &judged.Lease, "")
	})},
	{"does not compare the attempt of a claim", "a session that has changed",
		judges("Claim", func(judged *row, there row) { setIf(there.Attempt > judged.Attempt, judged, there) })},
	{"warns what has ended", "a session that has changed", revives("Warn", func(_, _ row) bool { return true })},
	{"finds any lease equal to none", "a session that has changed",
		judges("Cancel", func(judged *row, there row) { setIf(judged.Lease == "", &judged.Lease, there.Lease) })},
	{"warns a run that it does not know", "a session that has changed",
		after("Warn", func(c *call) { setIf(c.err == nil && c.there().Attempt == 0, &c.outcome, done) })},
	{"takes a claim for a sign of life", "a claimed session names the pass", after("Claim", func(c *call) {
		c.edit(c.judged.RunID, func(s *row) {
			plain := c.outcome == done && s.Lease != "" && s.WarnedAt.IsZero() && !s.Stopped
			setIf(plain, &s.Activity, s.Activity+1)
		})
	})},
	{"lets a caller without a name cancel what is claimed", "while a claim lasts",
		before("Cancel", func(c *call) { setIf(c.cancel.By == "", &c.cancel.By, c.there().Claim) })},
	{"refuses a pass its own claim", "while a claim lasts", misclaims(done, session.Taken, func(c *call, before row) bool {
		return before.Claim == c.claim.By && c.claim.For == time.Hour && before.Lease == ""
	})},
	{"keeps a claim for ever", "a claim lasts as long as", misclaims(done, session.Taken, func(c *call, before row) bool {
		return before.Claim != "" && before.Claim != c.claim.By
	})},
	{"keeps the end of the first claim", "a claim lasts as long as",
		before("Claim", func(c *call) { setIf(c.there().Claim == c.claim.By && c.claim.For == 0, &c.claim.For, time.Hour) })},
	{"claims without a lock", "eight claims at once one",
		misclaims(session.Taken, done, func(_ *call, before row) bool { return strings.HasPrefix(before.RunID, "race-") })},
	{"notes a warning without its events", "a warning is noted with its events",
		before("Warn", func(c *call) { setIf(c.judged.Lease != "" && len(c.events) == 1, &c.events, nil) })},
	{"stores the events of a warning one by one", "a cancel or a warning with", after("Warn", func(c *call) {
		if errors.Is(c.err, event.ErrInvalid) {
			_ = c.m.Append(c.ctx, c.events[0])
		}
	})},
	{"keeps a warning beside an activity", "are void after",
		stillWarned(func(s row) bool { return s.Lease == "lease-1" && s.Activity == 1 })},
	{"keeps a warning in another lease", "are void after",
		stillWarned(func(s row) bool { return s.Lease == "lease-2" })},
	{"keeps a warning of a dead process", "are void after", stillWarned(func(s row) bool { return s.Lease == "" })},
	{"takes back a warning with each write of the row", "a warning stands",
		looks(func(s *row) { setIf(strings.Contains(string(s.State), "warned\":1"), &s.WarnedAt, time.Time{}) })},
	{"takes a warning for a sign of life", "a session that was warned", judges("Claim", func(judged *row, there row) {
		setIf(there.Activity == 0 && !there.WarnedAt.Equal(judged.WarnedAt), &judged.Attempt, 0)
	})},
	{"does not note that a stop failed", "a claim can note",
		before("Claim", func(c *call) { setIf(strings.HasPrefix(c.judged.RunID, "failed-"), &c.claim.StopFailed, false) })},
	{"lets a sweeper claim that does not know of the stop", "before its agents were stopped",
		judges("Claim", func(judged *row, there row) { judged.Stopped = there.Stopped })},
	{"keeps the note of a stop beside an end", "are void after", looks(func(s *row) {
		setIf(s.Status == finished && s.Reason == "" && s.Claim == "pass-1", &s.StopFailed, true)
	})},
	{"takes a warning for a stop", "a warning and a stop", looks(func(s *row) {
		setIf(!s.WarnedAt.IsZero() && s.Activity == time.Second && s.Claim == "pass-1", &s.Stopped, true)
	})},
	{"keeps the note of a stop beside an activity", "are void after",
		looks(func(s *row) { setIf(s.Activity == 1 && s.Claim == "pass-1", &s.Stopped, true) })},
	{"keeps the note of a stop in the next attempt", "are void after", func() alteration {
		var stopped atomic.Bool // rules claim from several goroutines
		return both(before("Claim", func(c *call) { stopped.CompareAndSwap(false, c.claim.Stopped) }),
			looks(func(s *row) { setIf(stopped.Load() && s.Attempt == 2, &s.Stopped, true) }))()
	}},
	{"appends the other events beside a stored end", "a cancel or a claim of", after("Cancel", func(c *call) {
		if c.outcome == endStored {
			c.err = c.m.Append(c.ctx, c.cancel.Events...)
		}
	})},
	{"does not look for an end when it claims", "a cancel or a claim of",
		before("Claim", func(c *call) { setIf(strings.HasPrefix(c.judged.RunID, "claimed-"), &c.claim.EndID, "") })},
	{"forgets how the command of a stored end ended", "a cancel or a claim of", looks(func(s *row) {
		setIf(s.RunID == "cancelled-failed" && s.Failed(), &s.State, []byte(`{"phase":"tests","later":[1]}`))
	})},
	{"forgets the claim beside a stored end", "a stored end that appears", after("Cancel", func(c *call) {
		c.edit(c.judged.RunID, func(s *row) { setIf(c.outcome == endStored, &s.Claim, "") })
	})},
	{"takes any end of the run for that of its window", "the end of another window",
		before("Claim", func(c *call) { setIf(c.hasEvent(c.judged.RunID, "another"), &c.claim.EndID, "another") })},
	{"does not count an end that it found stored", "a lease is told of a stored end", forgetsEnd("claimed")},
	{"notifies of its own cancels only", "a listener is notified of a stored end",
		notifies(func(c *call, runID string) []string {
			setIf(runID == "run-1" && c.row(runID).Claim == "", &runID, "another")
			return []string{runID}
		})},
	{"stores the events of a cancel that came too late", "of eight cancels at once", after("Cancel", func(c *call) {
		if c.outcome == changed && strings.HasPrefix(c.cancel.Events[0].ID, "of caller") {
			c.err = c.m.Append(c.ctx, c.cancel.Events...)
		}
	})},
	{"takes the stored event of another for its own", "of eight cancels at once",
		boasts(func(c *call) bool { return strings.HasPrefix(c.cancel.By, "caller") })},
	{"looks for a stored end before it locks the row", "if a run ends while", after("Cancel", func(c *call) {
		c.edit(c.judged.RunID, func(s *row) {
			late := c.outcome == endStored && strings.HasPrefix(s.RunID, "race-")
			setIf(late, &s.Status, cancelled)
			setIf(late, &s.Reason, c.cancel.Reason)
		})
	})},
	{"cancels sessions together for the reason of nobody", "together each has", after("CancelAll", func(c *call) {
		if c.err == nil && len(c.all) == 5 && c.all[0].Request.By == "pass-1" {
			c.edit(c.all[4].Judged.RunID, func(s *row) { s.Reason = "" })
		}
	})},
	{"cancels together what woke up", "together each has",
		misjudges(func(c *call, one *batched) { one.Judged.LastEventAt = c.row(one.Judged.RunID).LastEventAt })},
	{"cancels together what another has claimed", "together each has", misjudges(func(c *call, one *batched) {
		by := c.row(one.Judged.RunID).Claim
		setIf(by == "pass-2", &one.Request.By, by)
	})},
	{"overlooks a stored end when it cancels together", "together each has",
		boastsTogether(endStored, func(*call, row) bool { return true })},
	{"cancels together in a transaction each", "together none is",
		around("CancelAll", func(c *call, _ func()) { c.cancelEach() })},
	{"calls a session cancelled that another cancels", "eight that cancel",
		boastsTogether(changed, func(c *call, s row) bool { return strings.HasPrefix(c.row(s.RunID).Claim, "caller ") })},
	{"does not keep that a start is wanted", "a cancel can want a start",
		cancelsAndThen("wanted", func(s *row, _ *call) { s.Start = session.WantedStart{} })},
	{"does not claim the start that a cancel wants", "a cancel can want a start",
		cancelsAndThen("wanted", func(s *row, _ *call) { s.Start.Due = s.CreatedAt })},
	{"lists no start", "a cancel can want a start",
		after("List", func(c *call) { each(c.listed.Sessions, func(s *row) { s.Start = session.WantedStart{} }) })},
	{"forgets the starts of sessions that are cancelled together", "can each want a start",
		misjudges(func(_ *call, one *batched) { one.Request.StartFor = 0 })},
	{"wants a start of each session that it cancels", "no start is wanted", cancelsAndThen("unwanted", wantsStart)},
	{"wants a start of a run whose end is stored", "no start is wanted", cancelsAndThen("ended before", wantsStart)},
	{"gives each try a key of its own", "a start that is due",
		claimsStarts(func(s *row) { setIf(s.RunID == "again" && s.Start.Tries == 3, &s.Start.Key, s.Start.Key+"'") })},
	{"does not count the tries of a start", "a start that is due",
		claimsStarts(func(s *row) { setIf(s.RunID == "again", &s.Start.Tries, min(s.Start.Tries, 3)) })},
	{"claims a start for no time", "claimed or put off",
		claimsStarts(func(s *row) { setIf(s.RunID == "later", &s.Start.Due, s.CreatedAt) })},
	{"puts a start off for no time", "claimed or put off", putsOff("later", func(c *call, _ row) { c.pause = 0 })},
	{"puts a start off for a week", "claimed or put off", after("PutOffStart", func(c *call) {
		c.edit("later", func(s *row) { setIf(c.pause > 0, &s.Start.Due, s.CreatedAt.Add(c.pause)) })
	})},
	{"claims the start first that has been due for the shortest time", "longest time", after("ClaimStart", func(c *call) {
		if first := c.s; first.RunID == "order-1" {
			c.s, c.err = c.m.ClaimStart(c.ctx, time.Hour)
			first.Start.Tries, first.Start.Due = 1, first.CreatedAt
			c.put(first)
		}
	})},
	{"gives one start to two that claim at once", "each takes another start", after("ClaimStart", func(c *call) {
		if again := c.s; again.RunID == "race-3" && again.Start.Tries == 2 {
			again.Start.Due = again.CreatedAt
			c.put(again)
		}
	})},
	{"lets whoever claimed a start before put it off", "only the latest claim",
		putsOff("late", func(c *call, there row) { c.s.Start.Tries = there.Start.Tries })},
	{"puts off a start with another key", "only the latest claim",
		putsOff("late", func(c *call, there row) { c.s.Start.Key = there.Start.Key })},
	{"puts off a start that was given up", "a start that was given up",
		putsOff("given up", func(c *call, _ row) { setIf(c.pause == session.NoMoreStarts, &c.pause, time.Hour) })},
	{"keeps the start of the attempt before", "a start that was given up", func() alteration {
		var before session.WantedStart
		return cancelsAndThen("attached", func(s *row, _ *call) {
			setIf(s.Attempt == 1, &before, s.Start)
			s.Start = before
		})()
	}},
	{"claims no start behind one that cannot be read", "that cannot be read", fails("ClaimStart", nil, func(c *call) bool {
		c.s, c.err = c.m.Session(c.ctx, "a-spoilt")
		return errors.Is(c.err, session.ErrUnreadable)
	})},
	{"claims a start for somebody who has gone", "a call with a done", around("ClaimStart", func(c *call, next func()) {
		done := c.ctx.Err()
		c.ctx = context.WithoutCancel(c.ctx)
		next()
		setIf(done != nil, &c.err, done)
	})},
}

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
		if len(c.counts) > 0 && c.hasEvent("run-3", event.Warning) {
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
}
