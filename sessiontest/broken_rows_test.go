package sessiontest_test

import (
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
func attaches(change func(before, s session.Session, after *session.Session)) fault {
	return after(func(c *attachCall) {
		was := c.after
		if c.err != nil {
			return
		}
		if change(c.before, c.s, &c.after); !reflect.DeepEqual(c.after, was) {
			c.put(c.after)
		}
	})
}

var brokenAttaches = []broken{
	{"creates a row in the past", "a new run gets an active row, created now and last active now, with attempt 1",
		attaches(func(before, _ session.Session, after *session.Session) {
			if before.Attempt == 0 && after.RunID == "run-1" && after.Parent == "" {
				after.CreatedAt = after.CreatedAt.Add(-time.Second)
			}
		})},
	{"returns the new row as the old one too", "before the first attach the attempt is 0",
		after(when(func(c *attachCall) bool { return c.before.Attempt == 0 },
			func(c *attachCall) { c.before = c.after }))},
	{"swaps two attempts", "attaching again counts the attempt",
		after(func(c *attachCall) {
			plain := c.before.Lease == "" && c.s.Lease == "" && c.s.Attempt == 0
			if plain && c.before.Status == session.Active && (c.after.Attempt == 2 || c.after.Attempt == 3) {
				c.after.Attempt = 5 - c.after.Attempt
			}
		})},
	{"returns the row that it wrote as the one that was", "attaching again returns the row as it was",
		after(when(func(c *attachCall) bool { return c.before.Attempt > 0 },
			func(c *attachCall) { c.before = c.after }))},
	{"keeps the reason of the attempt before", "attaching again makes an ended session active and clears its reason",
		attaches(func(before, _ session.Session, after *session.Session) { after.Reason = before.Reason })},
	{"replaces the row", "attaching again keeps the creation time and the number of resumes",
		attaches(func(_, _ session.Session, after *session.Session) { after.Resumes = 0 })},
	{"keeps the host of the first attempt",
		"attaching again sets parent, threshold, window and host, and the last event to now",
		attaches(func(before, _ session.Session, after *session.Session) {
			if before.Attempt > 0 {
				after.Host = before.Host
			}
		})},
	{"has room for three attempts", "callers that attach to one run at once get different attempts",
		attaches(func(_, s session.Session, after *session.Session) {
			if s.Attempt == 0 {
				after.Attempt = min(after.Attempt, 3)
			}
		})},
}

// looks is a fault in the rows that are read.
func looks(change func(s *session.Session)) fault {
	return after(func(c *sessionCall) { change(&c.s) })
}

var brokenRows = []broken{
	{"keeps a threshold in milliseconds", "a row is read as it was written",
		looks(when(func(s *session.Session) bool { return s.Threshold != watchdog.NoLimit },
			func(s *session.Session) { s.Threshold = s.Threshold.Truncate(time.Millisecond) }))},
	{"keeps thresholds in seconds", "a threshold of NoLimit is read as NoLimit",
		looks(when(func(s *session.Session) bool { return s.Threshold == watchdog.NoLimit && s.Parent+s.Host == "" },
			func(s *session.Session) { s.Threshold = s.Threshold.Truncate(time.Second) }))},
	{"returns the zone of its server", "times are read in UTC",
		looks(func(s *session.Session) { s.CreatedAt = s.CreatedAt.In(time.FixedZone("server", 3600)) })},
	{"reads the clock time of any zone as UTC",
		"the start of a window is the same moment in every zone, cut off below the microsecond",
		before(func(c *attachCall) {
			_, offset := c.s.StartedAt.Zone()
			c.s.StartedAt = c.s.StartedAt.Add(time.Duration(offset) * time.Second)
		})},
	{"returns another error than ErrNotFound", "a run that has no row is not found",
		after(when(func(c *sessionCall) bool { return errors.Is(c.err, session.ErrNotFound) },
			func(c *sessionCall) { c.err = errors.New("sql: no rows in result set") }))},
	{"reads an invalid time as the year 1", "an unreadable row is an error that says so and names the run",
		after(when(func(c *sessionCall) bool { return errors.Is(c.err, session.ErrUnreadable) },
			func(c *sessionCall) { c.err = nil }))},
	{"writes to a row before it reads it", "to attach to an unreadable row is an error and changes nothing",
		after(func(c *attachCall) {
			if errors.Is(c.err, session.ErrUnreadable) {
				c.s.Attempt, c.s.Status = 2, session.Active
				c.put(c.s)
			}
		})},
	{"folds the case of run IDs", "every character of a run ID counts, and none has a special meaning",
		before(func(c *sessionCall) { c.runID = strings.Replace(c.runID, "RUN", "run", 1) })},
}

// freshens is a fault in the activities that are written.
func freshens(change func(c *freshenCall, f *session.Freshness)) fault {
	return before(func(c *freshenCall) {
		for i := range c.fresh {
			change(c, &c.fresh[i])
		}
	})
}

// drops is a fault in which some activities are not written.
func drops(which func(c *freshenCall, s session.Session, f session.Freshness) bool) fault {
	return before(func(c *freshenCall) {
		c.fresh = slices.DeleteFunc(c.fresh, func(f session.Freshness) bool { return which(c, c.row(f.RunID), f) })
	})
}

// forces is a fault in which some rows are written that must be left alone.
func forces(which func(s session.Session, f session.Freshness) bool) fault {
	return after(func(c *freshenCall) {
		for _, f := range c.fresh {
			if s := c.row(f.RunID); c.err == nil && s.Attempt > 0 && which(s, f) {
				s.Lease, s.Activity = c.lease, f.Activity
				c.put(s)
			}
		}
	})
}

var brokenFreshens = []broken{
	{"cuts activities to microseconds", "an activity is read as it was written, to the nanosecond",
		freshens(func(_ *freshenCall, f *session.Freshness) {
			if f.Activity > 1 {
				f.Activity = f.Activity.Truncate(time.Microsecond)
			}
		})},
	{"writes earlier activities as well", "freshening never takes an activity back, by the clock of its lease",
		forces(func(s session.Session, f session.Freshness) bool {
			return s.Status == session.Active && s.Attempt == f.Attempt && f.Activity == 2*time.Hour-1
		})},
	{"does not put a session that has not signalled into the lease",
		"freshening puts a session without a lease into the lease, with its first activity",
		drops(func(_ *freshenCall, s session.Session, f session.Freshness) bool {
			return s.Attempt > 0 && s.Lease == "" && f.Activity == session.NoActivity
		})},
	{"compares the activities of two leases",
		"freshening takes a session over from another lease, whatever its activity was by that lease's clock",
		drops(func(c *freshenCall, s session.Session, f session.Freshness) bool {
			return s.Lease != "" && s.Lease != c.lease && s.Activity == 3*time.Hour && f.Activity < s.Activity
		})},
	{"clears the state with each activity",
		"freshening writes the state that it has, and without one leaves the state as it is",
		freshens(func(c *freshenCall, f *session.Freshness) {
			if s := c.row(f.RunID); f.State == nil && s.State != nil && s.StartedAt.Hour() == 12 {
				f.State = json.RawMessage(`null`)
			}
		})},
	{"does not compare the attempt", "a session in another attempt is left alone and returned as gone",
		forces(func(s session.Session, f session.Freshness) bool {
			return s.Status == session.Active && s.Attempt != f.Attempt
		})},
	{"does not compare the status", "a session that has ended is left alone and returned as gone",
		forces(func(s session.Session, _ session.Freshness) bool { return s.Status != session.Active })},
	{"does not return runs that it does not know", "a run that has no row is returned as gone",
		after(func(c *freshenCall) {
			if gone := c.skipped.Gone; len(gone) == 1 && c.row(gone[0]).Attempt == 0 {
				c.skipped.Gone = nil
			}
		})},
	{"has a limit of fifteen hundred parameters", "ten thousand sessions are freshened in one call, and no others",
		around(func(c *freshenCall, next func()) {
			if len(c.fresh) > 1500 {
				c.err = errors.New("too many SQL variables")
				return
			}
			next()
		})},
	{"joins run IDs with commas and quotes", "unusual run IDs are freshened like others",
		freshens(func(_ *freshenCall, f *session.Freshness) { f.RunID = strings.ReplaceAll(f.RunID, "'", "") })},
	{"cannot write an empty list", "freshening nothing does nothing",
		around(func(c *freshenCall, next func()) {
			if len(c.fresh) == 0 {
				c.err = errors.New("syntax error near )")
				return
			}
			next()
		})},
}
