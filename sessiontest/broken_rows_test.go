package sessiontest_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

func attaches(change func(before, s row, after *row)) fault {
	return after("Attach", func(c *call) {
		was := c.after
		if change(c.before, c.s, &c.after); c.err == nil && !reflect.DeepEqual(c.after, was) {
			c.put(c.after)
		}
	})
}

func looks(change func(s *row)) fault { return after("Session", func(c *call) { change(&c.s) }) }

// errNoRows is an error of a database that does not say what a caller wants to know.
var errNoRows = errors.New("sql: no rows in result set")

func freshens(change func(s row, f *freshness)) fault {
	return before("Freshen", func(c *call) {
		each(c.fresh, func(f *freshness) { change(c.row(f.RunID), f) })
	})
}

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

func ends(change func(c *call, e *ending)) fault {
	return before("End", func(c *call) { each(c.ends, func(e *ending) { change(c, e) }) })
}

const (
	// vouched is the instant up to which leases vouch, and covered that for the rows that they do not name.
	vouched = 1000 * 24 * time.Hour
	covered = vouched + 24*time.Hour
	// allowed is the allowance in the rules.
	allowed = 500 * 24 * time.Hour
)

func misses(which func(c *call, s row) bool) fault {
	return after("Stalled", func(c *call) {
		c.page.Sessions = slices.DeleteFunc(c.page.Sessions, func(s row) bool { return which(c, s) })
	})
}

// finds is a fault in which a session is found that is not stalled. It is not found by those who ask for the time.
func finds(runID string, which func(s row) bool) fault {
	return after("Stalled", func(c *call) {
		s := c.row(runID)
		setIf(which(s) && c.q.Threshold != watchdog.NoLimit, &c.page.Sessions, append(c.page.Sessions, s))
	})
}

// also is a fault in which more sessions of the lease are stalled.
func also(which func(c *call, s row) bool) fault {
	return after("Stalled", func(c *call) {
		for _, s := range c.rowsOf("lease-1") {
			known := slices.ContainsFunc(c.page.Sessions, func(p row) bool { return p.RunID == s.RunID })
			if !known && c.q.Threshold != watchdog.NoLimit && which(c, s) {
				c.page.Sessions = append(c.page.Sessions, s)
			}
		}
	})
}

// pages is a fault in each session of some pages.
func pages(which func(c *call) bool, change func(s *row)) fault {
	return after("Stalled", func(c *call) {
		if which(c) {
			each(c.page.Sessions, change)
		}
	})
}

// hidesOneTime is a fault in which sessions that fell silent first are found on the first page only.
func hidesOneTime(own time.Duration) fault {
	return misses(func(c *call, s row) bool {
		return c.q.After != "" && s.Lease != "" && s.Threshold == own && s.Activity == time.Microsecond
	})
}

var brokenRows = []broken{
	{"creates a row in the past", "a new run gets an active row", attaches(func(before, _ row, after *row) {
		first := before.Attempt == 0 && after.RunID == "run-1" && after.Parent == ""
		setIf(first, &after.CreatedAt, after.CreatedAt.Add(-time.Second))
	})},
	{"returns the new row as the old one too", "a new run gets",
		after("Attach", func(c *call) { setIf(c.before.Attempt == 0, &c.before, c.after) })},
	{"swaps two attempts", "attaching again counts", after("Attach", func(c *call) {
		plain := c.before.Lease == "" && c.s.Lease == "" && c.s.Attempt == 0 && c.before.Status == active
		setIf(plain && (c.after.Attempt == 2 || c.after.Attempt == 3), &c.after.Attempt, 5-c.after.Attempt)
	})},
	{"returns the row that it wrote as the one that was", "attaching again counts",
		after("Attach", func(c *call) { setIf(c.before.Attempt > 0, &c.before, c.after) })},
	{"keeps the reason of the attempt before", "attaching again keeps",
		attaches(func(before, _ row, after *row) { after.Reason = before.Reason })},
	{"replaces the row", "attaching again keeps", attaches(func(_, _ row, after *row) { after.Resumes = 0 })},
	{"keeps the host of the first attempt", "attaching again keeps",
		attaches(func(before, _ row, after *row) { setIf(before.Attempt > 0, &after.Host, before.Host) })},
	{"has room for three attempts", "callers that attach",
		attaches(func(_, s row, after *row) { setIf(s.Attempt == 0, &after.Attempt, min(after.Attempt, 3)) })},
	{"keeps the activity of the attempt before", "attaching under a lease", attaches(func(before, _ row, after *row) {
		setIf(before.Lease == after.Lease && before.Activity == time.Hour, &after.Activity, before.Activity)
	})},
	{"keeps the state of the attempt before", "attaching again keeps",
		attaches(func(before, s row, after *row) { setIf(s.State == nil, &after.State, before.State) })},
	{"keeps that a stop failed", "attaching again keeps",
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
	{"keeps thresholds in seconds", "a row is read", looks(func(s *row) {
		none := s.Threshold == watchdog.NoLimit && s.Parent == "päir"
		setIf(none, &s.Threshold, s.Threshold.Truncate(time.Second))
	})},
	{"returns the zone of its server", "a row is read",
		looks(func(s *row) { s.CreatedAt = s.CreatedAt.In(time.FixedZone("server", 3600)) })},
	{"reads the clock time of any zone as UTC", "a row is read", before("Attach", func(c *call) {
		_, offset := c.s.StartedAt.Zone()
		c.s.StartedAt = c.s.StartedAt.Add(time.Duration(offset) * time.Second)
	})},
	{"returns another error than ErrNotFound", "no row is not found",
		after("Session", func(c *call) { setIf(errors.Is(c.err, session.ErrNotFound), &c.err, errNoRows) })},
	{"reads an invalid time as the year 1", "an unreadable row is",
		after("Session", func(c *call) { setIf(errors.Is(c.err, session.ErrUnreadable), &c.err, nil) })},
	{"writes to a row before it reads it", "an unreadable row is", after("Attach", func(c *call) {
		if errors.Is(c.err, session.ErrUnreadable) {
			c.s.Attempt, c.s.Status = 2, active
			c.put(c.s)
		}
	})},
	{"folds the case of run IDs", "every character of a run ID",
		before("Session", func(c *call) { c.runID = strings.Replace(c.runID, "RUN", "run", 1) })},
	{"cuts activities to microseconds", "an activity is read",
		freshens(func(_ row, f *freshness) { setIf(f.Activity > 1, &f.Activity, f.Activity.Truncate(time.Microsecond)) })},
	{"writes earlier activities as well", "an activity is read", forces(func(s row, f freshness) bool {
		return s.Status == active && s.Attempt == f.Attempt && f.Activity == 1000*24*time.Hour && f.State != nil
	})},
	{"does not put a session that has not signalled into the lease", "freshening puts",
		drops(func(_ *call, s row, f freshness) bool {
			return s.Attempt > 0 && s.Lease == "" && f.Activity == noActivity
		})},
	{"compares the activities of two leases", "freshening puts", drops(func(c *call, s row, f freshness) bool {
		return s.Lease != "" && s.Lease != c.lease && s.Activity == 3*time.Hour && f.Activity < s.Activity
	})},
	{"clears the state with each activity", "freshening writes the state", freshens(func(s row, f *freshness) {
		setIf(f.State == nil && s.State != nil && s.StartedAt.Hour() == 12, &f.State, json.RawMessage(`null`))
	})},
	{"does not compare the attempt", "returned as gone",
		forces(func(s row, f freshness) bool { return s.Status == active && s.Attempt != f.Attempt })},
	{"does not compare the status", "returned as gone",
		forces(func(s row, _ freshness) bool { return s.Status != active })},
	{"does not return runs that it does not know", "returned as gone", after("Freshen", func(c *call) {
		gone := c.skipped.Gone
		setIf(len(gone) == 1 && c.row(gone[0]).Attempt == 0, &c.skipped.Gone, nil)
	})},
	{"has a limit of fifteen hundred parameters", "ten thousand sessions",
		fails("Freshen", errors.New("too many SQL variables"), func(c *call) bool { return len(c.fresh) > 1500 })},
	{"joins run IDs with commas and quotes", "every character of a run ID",
		freshens(func(_ row, f *freshness) { f.RunID = strings.ReplaceAll(f.RunID, "'", "") })},
	{"cannot write an empty list", "ten thousand sessions",
		fails("Freshen", errors.New("syntax error near )"), func(c *call) bool { return len(c.fresh) == 0 })},
	{"forgets the reason", "attempt ends", ends(func(_ *call, e *ending) { setIf(e.Status == cancelled, &e.Reason, "") })},
	{"drops the state of an end", "an end writes the state",
		ends(func(_ *call, e *ending) { setIf(strings.HasPrefix(e.RunID, "with"), &e.State, nil) })},
	{"does not compare the attempt of an end", "attempt ends",
		ends(func(c *call, e *ending) { e.Attempt = c.row(e.RunID).Attempt })},
	{"overwrites an end", "keeps its end", ends(func(c *call, e *ending) {
		if s := c.row(e.RunID); s.Status != active && s.Attempt == e.Attempt {
			s.Status, s.Reason = e.Status, e.Reason
			c.put(s)
		}
	})},
	{"takes the time of an end for that of the last event", "the last event of a session",
		ends(func(c *call, e *ending) { setIf(c.m.Clock().Sub(c.row(e.RunID).LastEventAt) > e.Age, &e.Age, 0) })},
	{"believes every host", "the last event of a session", after("End", func(c *call) {
		for _, e := range c.ends {
			at := c.m.Clock().Add(-e.Age)
			c.edit(e.RunID, func(s *row) {
				setIf(e.Age == 90*time.Minute && at.Before(s.LastEventAt), &s.LastEventAt, at)
			})
		}
	})},
	{"takes the last event of a session for its end", "a session that ends leaves its lease",
		looks(func(s *row) { s.EndedAt = s.LastEventAt })},
	{"keeps the lease in the row of an ended session", "a session that ends leaves its lease",
		looks(func(s *row) { setIf(s.RunID == "cancel" && s.Status != active, &s.Lease, s.RunID) })},
	{"takes the threshold itself for too long", "more than the threshold, to the microsecond",
		before("Stalled", func(c *call) { setIf(c.q.MinAge > 0, &c.q.Threshold, c.q.Threshold-time.Microsecond) })},
	{"wants a session to be older than the minimum age", "a session is old enough",
		misses(func(c *call, s row) bool { return s.Lease == "" && c.page.Now.Sub(s.CreatedAt) == 2*time.Minute })},
	{"does not find what has no last event", "an active session is stalled",
		misses(func(_ *call, s row) bool { return s.LastEventAt.IsZero() })},
	{"applies the sweeper's threshold to every session", "an active session is stalled", misses(func(c *call, s row) bool {
		return s.RunID == "short and silent" && c.page.Now.Sub(s.SilentSince()) <= 10*time.Minute
	})},
	{"takes off for a long threshold", "an active session is stalled",
		finds("off", func(s row) bool { return s.Threshold == watchdog.NoLimit })},
	{"finds what has ended", "an active session is stalled",
		finds("interrupted", func(s row) bool { return s.Status == interrupted })},
	{"orders by the last event", "sessions are ordered", after("Stalled", func(c *call) {
		leased := slices.ContainsFunc(c.page.Sessions, func(s row) bool { return s.Lease != "" })
		if c.page.Next == "" && leased {
			slices.SortStableFunc(c.page.Sessions, func(a, b row) int { return a.SilentSince().Compare(b.SilentSince()) })
		}
	})},
	{"returns only some columns", "a stalled session is returned",
		pages(func(*call) bool { return true }, func(s *row) { s.Parent = "" })},
	{"fails if it cannot read a row", "is reported, is not stalled",
		after("Stalled", func(c *call) { c.err = errors.Join(append(c.page.Unreadable, c.err)...) })},
	{"continues after the time and not after the session", "pages follow", after("Stalled", func(c *call) {
		at, _, found := strings.Cut(c.page.Next, " ")
		setIf(found && c.q.Limit == 5 && strings.HasPrefix(c.page.Sessions[0].RunID, "run "), &c.page.Next, at+" \U0010ffff")
	})},
	{"returns one session more", "its limit", before("Stalled", func(c *call) { setIf(c.q.Limit == 3, &c.q.Limit, 4) })},
	{"has a next page after each full one", "its limit", after("Stalled", func(c *call) {
		full := len(c.page.Sessions) == c.q.Limit && c.page.Next == ""
		setIf(full, &c.page.Next, fmt.Sprint(int64(math.MaxInt64), " \U0010ffff"))
	})},
	{"pages with an offset", "the next page follows", around("Stalled", func(c *call, next func()) {
		from, _ := strconv.Atoi(cmp.Or(c.q.After, "0"))
		limit := c.q.Limit
		c.q.Limit, c.q.After = math.MaxInt32, ""
		next()
		found := c.page.Sessions[min(from, len(c.page.Sessions)):]
		c.page.Sessions = found[:min(limit, len(found))]
		setIf(len(found) > limit, &c.page.Next, strconv.Itoa(from+limit))
	})},
	{"returns the time only with sessions", "a page without a session", after("Stalled", func(c *call) {
		setIf(len(c.page.Sessions) == 0 && c.q.Threshold != watchdog.NoLimit, &c.page.Now, time.Time{})
	})},
	{"measures a silence from the start of the lease", "a quiet session is silent", looks(func(s *row) {
		setIf(s.Lease != "" && s.Activity == noActivity && s.RunID == "run-2", &s.Silence, vouched)
	})},
	{"keeps the silence in the row", "a quiet session is silent",
		looks(func(s *row) { setIf(s.RunID == "run-3" && s.Silence == time.Hour, &s.Silence, 0) })},
	{"takes the threshold of a lease for too long", "a session of a lease is stalled",
		also(func(c *call, s row) bool { return s.Silence > 0 && s.Silence == c.q.Threshold })},
	{"does not look whether a session is quiet", "a session of a lease is stalled", also(func(c *call, s row) bool {
		return s.Silence == 0 && s.Activity == 0 && s.Threshold == 0 && s.RunID == "run-8" &&
			c.q.Threshold < c.leaseOf("lease-1").Vouched
	})},
	{"writes later activities only", "becomes quiet", drops(func(c *call, s row, f freshness) bool {
		return s.Lease == c.lease && s.Activity == f.Activity && f.State == nil
	})},
	{"takes no activity for an old one", "a session of a lease is stalled", also(func(c *call, s row) bool {
		return s.Activity == noActivity && s.Threshold > 0 && s.Threshold < c.leaseOf("lease-1").Vouched
	})},
	{"judges every session by the database's clock", "the database's clock says nothing", also(func(c *call, s row) bool {
		return s.RunID == "run-1" && c.page.Now.Sub(s.LastEventAt) > 300*24*time.Hour && s.Silence < c.q.Threshold
	})},
	{"does not look at the age of a session of a lease", "a session of a lease is old", also(func(c *call, s row) bool {
		return s.Silence > c.q.Threshold && c.page.Now.Sub(s.CreatedAt) < c.q.MinAge
	})},
	{"leaves out the silence of a stalled session", "a stalled session is returned",
		pages(func(c *call) bool { return c.q.Limit == 10 }, func(s *row) { s.Silence = 0 })},
	{"returns the sessions of leases last", "sessions are ordered", after("Stalled", func(c *call) {
		if c.page.Next == "" {
			slices.SortStableFunc(c.page.Sessions, func(a, b row) int { return len(a.Lease) - len(b.Lease) })
		}
	})},
	{"pages through the sessions of leases only once", "pages follow", misses(func(c *call, s row) bool {
		return c.q.After != "" && s.Lease != "" && strings.HasPrefix(s.RunID, "run ")
	})},
	{"hides sessions that fell silent with the last of a page", "pages of sessions of one lease", hidesOneTime(0)},
	{"hides sessions of one threshold that fell silent with the last of a page", "pages of sessions of one lease",
		hidesOneTime(time.Hour)},
	{"keeps the rows that are behind after they are written", "a renewal writes the rows",
		before("RenewLease", func(c *call) { setIf(len(c.l.Behind) == 0, &c.l.Behind, c.leaseOf(c.l.ID).Behind) })},
	{"takes the rows that are behind from any renewal", "rows that are behind are", before("RenewLease", func(c *call) {
		setIf(len(c.l.Behind) > 0, &c.l.Beat, max(c.l.Beat, c.leaseOf(c.l.ID).Beat+1))
	})},
	{"forgets the rows that are behind with a renewal that covers nothing", "rows that are behind are",
		before("RenewLease", func(c *call) { setIf(c.l.Covered == 0 && c.leaseOf(c.l.ID).Covered > 0, &c.l.Covered, 1) })},
	{"vouches for all rows alike", "silent up to its own instant",
		looks(func(s *row) { setIf(s.Behind && s.Silence == 4*time.Second, &s.Silence, covered-time.Second) })},
	{"finds sessions by the instant of the lease alone", "stalled by its own instant",
		also(func(_ *call, s row) bool { return s.Behind })},
	{"does not look at the lease again before it claims", "names since it was found",
		before("Claim", func(c *call) { c.judged.Silence = 0 })},
	{"does not look at the lease again before it warns", "names since it was found",
		before("Warn", func(c *call) { c.judged.Silence = 0 })},
	{"does not look at the lease again before it cancels", "names since it was found",
		before("Cancel", func(c *call) { setIf(c.judged.Allowance == 0, &c.judged.Silence, 0) })},
	{"shows what is beside an allowance", "an allowance is read",
		looks(func(s *row) { setIf(s.Allowance > allowed, &s.Threshold, s.Allowance) })},
	{"keeps an allowance that there is no more", "an allowance is read", looks(func(s *row) {
		setIf(s.RunID == "ended" && s.Lease != "" && s.Activity == time.Millisecond, &s.Allowance, allowed)
	})},
	{"keeps the allowance of a dead process", "an allowance is read",
		looks(func(s *row) { setIf(s.RunID == "left behind" && s.Lease == "", &s.Threshold, allowed) })},
	{"looks at no allowance", "more than its allowance",
		also(func(c *call, s row) bool { return s.Allowance > 0 && s.Silence > c.q.Threshold })},
	{"cancels within an allowance", "a silence that its allowance covers",
		before("Cancel", func(c *call) { setIf(c.judged.Allowance > 0, &c.judged.Silence, 0) })},
}
