package sessiontest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// attaches is a fault in the row after an attach.
func attaches(change func(before, s row, after *row)) fault {
	return after("Attach", func(c *call) {
		was := c.after
		if c.err != nil {
			return
		}
		if change(c.before, c.s, &c.after); !reflect.DeepEqual(c.after, was) {
			c.put(c.after)
		}
	})
}

// looks is a fault in the rows that are read.
func looks(change func(s *row)) fault { return after("Session", func(c *call) { change(&c.s) }) }

// errNoRows is an error of a database that does not say what a caller wants to know.
var errNoRows = errors.New("sql: no rows in result set")

// freshens is a fault in the activities that are written.
func freshens(change func(s row, f *freshness)) fault {
	return before("Freshen", func(c *call) {
		each(c.fresh, func(f *freshness) { change(c.row(f.RunID), f) })
	})
}

// drops is a fault in which some activities are not written.
func drops(which func(c *call, s row, f freshness) bool) fault {
	return before("Freshen", func(c *call) {
		c.fresh = slices.DeleteFunc(c.fresh, func(f freshness) bool { return which(c, c.row(f.RunID), f) })
	})
}

// forces is a fault in which some rows are written that must be left alone.
func forces(which func(s row, f freshness) bool) fault {
	return after("Freshen", func(c *call) {
		for _, f := range c.fresh {
			if s := c.row(f.RunID); c.err == nil && s.Attempt > 0 && which(s, f) {
				s.Lease, s.Activity = c.lease, f.Activity
				c.put(s)
			}
		}
	})
}

// ends is a fault in the arguments of End.
func ends(change func(c *call, e *ending)) fault {
	return before("End", func(c *call) { each(c.ends, func(e *ending) { change(c, e) }) })
}

var brokenRows = []broken{
	{"creates a row in the past", "a new run gets an active row", attaches(func(before, _ row, after *row) {
		first := before.Attempt == 0 && after.RunID == "run-1" && after.Parent == ""
		setIf(first, &after.CreatedAt, after.CreatedAt.Add(-time.Second))
	})},
	{"returns the new row as the old one too", "before the first attach",
		after("Attach", func(c *call) { setIf(c.before.Attempt == 0, &c.before, c.after) })},
	{"swaps two attempts", "again counts the attempt", after("Attach", func(c *call) {
		plain := c.before.Lease == "" && c.s.Lease == "" && c.s.Attempt == 0 && c.before.Status == active
		setIf(plain && (c.after.Attempt == 2 || c.after.Attempt == 3), &c.after.Attempt, 5-c.after.Attempt)
	})},
	{"returns the row that it wrote as the one that was", "again returns the row",
		after("Attach", func(c *call) { setIf(c.before.Attempt > 0, &c.before, c.after) })},
	{"keeps the reason of the attempt before", "again makes an ended session active",
		attaches(func(before, _ row, after *row) { after.Reason = before.Reason })},
	{"replaces the row", "again keeps the creation time", attaches(func(_, _ row, after *row) { after.Resumes = 0 })},
	{"keeps the host of the first attempt", "again sets parent",
		attaches(func(before, _ row, after *row) { setIf(before.Attempt > 0, &after.Host, before.Host) })},
	{"has room for three attempts", "callers that attach",
		attaches(func(_, s row, after *row) { setIf(s.Attempt == 0, &after.Attempt, min(after.Attempt, 3)) })},
	{"keeps the activity of the attempt before", "attaching under a lease", attaches(func(before, _ row, after *row) {
		setIf(before.Lease == after.Lease && before.Activity == time.Hour, &after.Activity, before.Activity)
	})},
	{"keeps the state of the attempt before", "again clears the lease",
		attaches(func(before, s row, after *row) { setIf(s.State == nil, &after.State, before.State) })},
	{"keeps that a stop failed", "again clears that",
		attaches(func(before, _ row, after *row) { after.StopFailed = before.StopFailed })},
	{"counts its own attempts", "makes a lost row again", attaches(func(before, s row, after *row) {
		setIf(s.RunID == "run-1" && before.Attempt < s.Attempt, &after.Attempt, before.Attempt+1)
	})},
	{"takes a run back", "row, or is over", before("Attach", func(c *call) { setIf(c.s.Attempt == 2, &c.s.Attempt, 0) })},
	{"does not count takeovers", "a lease is told of an attempt", forgetsEnd("lost")},
	{"notifies of each attach", "notified of each takeover", tellsBefore("taken over", "new")},
	{"keeps the numbers of a state as floats", "a state is read", looks(func(s *row) {
		s.State = bytes.Replace(s.State, []byte("12345678901234567890.125"), []byte("12345678901234567000"), 1)
	})},
	{"keeps a threshold in milliseconds", "a row is read", looks(func(s *row) {
		setIf(s.Threshold != watchdog.NoLimit, &s.Threshold, s.Threshold.Truncate(time.Millisecond))
	})},
	{"keeps thresholds in seconds", "a threshold of NoLimit", looks(func(s *row) {
		none := s.Threshold == watchdog.NoLimit && s.Parent+s.Host == ""
		setIf(none, &s.Threshold, s.Threshold.Truncate(time.Second))
	})},
	{"returns the zone of its server", "times are read in UTC",
		looks(func(s *row) { s.CreatedAt = s.CreatedAt.In(time.FixedZone("server", 3600)) })},
	{"reads the clock time of any zone as UTC", "the start of a window", before("Attach", func(c *call) {
		_, offset := c.s.StartedAt.Zone()
		c.s.StartedAt = c.s.StartedAt.Add(time.Duration(offset) * time.Second)
	})},
	{"returns another error than ErrNotFound", "no row is not found",
		after("Session", func(c *call) { setIf(errors.Is(c.err, session.ErrNotFound), &c.err, errNoRows) })},
	{"reads an invalid time as the year 1", "an unreadable row is an error that",
		after("Session", func(c *call) { setIf(errors.Is(c.err, session.ErrUnreadable), &c.err, nil) })},
	{"writes to a row before it reads it", "to attach to an unreadable row", after("Attach", func(c *call) {
		if errors.Is(c.err, session.ErrUnreadable) {
			c.s.Attempt, c.s.Status = 2, active
			c.put(c.s)
		}
	})},
	{"folds the case of run IDs", "every character of a run ID",
		before("Session", func(c *call) { c.runID = strings.Replace(c.runID, "RUN", "run", 1) })},
	{"cuts activities to microseconds", "an activity is read",
		freshens(func(_ row, f *freshness) { setIf(f.Activity > 1, &f.Activity, f.Activity.Truncate(time.Microsecond)) })},
	{"writes earlier activities as well", "never takes an activity back", forces(func(s row, f freshness) bool {
		return s.Status == active && s.Attempt == f.Attempt && f.Activity == 2*time.Hour-1
	})},
	{"does not put a session that has not signalled into the lease", "puts a session without a lease",
		drops(func(_ *call, s row, f freshness) bool {
			return s.Attempt > 0 && s.Lease == "" && f.Activity == noActivity
		})},
	{"compares the activities of two leases", "takes a session over", drops(func(c *call, s row, f freshness) bool {
		return s.Lease != "" && s.Lease != c.lease && s.Activity == 3*time.Hour && f.Activity < s.Activity
	})},
	{"clears the state with each activity", "freshening writes the state", freshens(func(s row, f *freshness) {
		setIf(f.State == nil && s.State != nil && s.StartedAt.Hour() == 12, &f.State, json.RawMessage(`null`))
	})},
	{"does not compare the attempt", "in another attempt is left alone",
		forces(func(s row, f freshness) bool { return s.Status == active && s.Attempt != f.Attempt })},
	{"does not compare the status", "ended is left", forces(func(s row, _ freshness) bool { return s.Status != active })},
	{"does not return runs that it does not know", "no row is returned as gone", after("Freshen", func(c *call) {
		gone := c.skipped.Gone
		setIf(len(gone) == 1 && c.row(gone[0]).Attempt == 0, &c.skipped.Gone, nil)
	})},
	{"has a limit of fifteen hundred parameters", "ten thousand sessions",
		fails("Freshen", errors.New("too many SQL variables"), func(c *call) bool { return len(c.fresh) > 1500 })},
	{"joins run IDs with commas and quotes", "unusual run IDs",
		freshens(func(_ row, f *freshness) { f.RunID = strings.ReplaceAll(f.RunID, "'", "") })},
	{"cannot write an empty list", "freshening nothing",
		fails("Freshen", errors.New("syntax error near )"), func(c *call) bool { return len(c.fresh) == 0 })},
	{"forgets the reason", "attempt ends", ends(func(_ *call, e *ending) { setIf(e.Status == cancelled, &e.Reason, "") })},
	{"drops the state of an end", "an end writes the state",
		ends(func(_ *call, e *ending) { setIf(strings.HasPrefix(e.RunID, "with"), &e.State, nil) })},
	{"does not compare the attempt of an end", "an end of another attempt",
		ends(func(c *call, e *ending) { e.Attempt = c.row(e.RunID).Attempt })},
	{"overwrites an end", "keeps its end", ends(func(c *call, e *ending) {
		if s := c.row(e.RunID); s.Status != active && s.Attempt == e.Attempt {
			s.Status, s.Reason = e.Status, e.Reason
			c.put(s)
		}
	})},
	{"takes the time of an end for that of the last event", "the last event of a session",
		ends(func(c *call, e *ending) { setIf(c.m.Clock().Sub(c.row(e.RunID).LastEventAt) > e.Age, &e.Age, 0) })},
	{"believes every host", "an end never moves", after("End", func(c *call) {
		for _, e := range c.ends {
			at := c.m.Clock().Add(-e.Age)
			c.edit(e.RunID, func(s *row) {
				setIf(e.Age == 90*time.Minute && at.Before(s.LastEventAt), &s.LastEventAt, at)
			})
		}
	})},
	{"takes the last event of a session for its end", "says when", looks(func(s *row) { s.EndedAt = s.LastEventAt })},
	{"keeps the lease in the row of an ended session", "a session that ends leaves its lease",
		looks(func(s *row) { setIf(s.RunID == "cancel" && s.Status != active, &s.Lease, s.RunID) })},
}
