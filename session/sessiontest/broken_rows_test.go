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

func observes(change func(c *call, l *lease)) fault {
	return after("ObserveLeases", func(c *call) { each(c.leases, func(l *lease) { change(c, l) }) })
}

// leaving is a fault in the rows that leave an expired lease.
func leaving(change func(l lease, before row, s *row)) fault {
	return around("ExpireLease", func(c *call, next func()) {
		there, named := c.leaseOf(c.l.ID), c.rowsOf(c.l.ID)
		if next(); !c.expired || c.err != nil || len(named) > 10 {
			return
		}
		for _, before := range named {
			c.edit(before.RunID, func(s *row) { change(there, before, s) })
		}
	})
}

// leavesAt is leaving with another time of the last event for some rows.
func leavesAt(at func(l lease) time.Time, which func(l lease, before row) bool) fault {
	return leaving(func(l lease, before row, s *row) { setIf(which(l, before), &s.LastEventAt, at(l)) })
}

// leaseBegan returns the start of a lease, by the clock of the store.
func leaseBegan(l lease) time.Time { return l.RenewedAt.Add(-l.Clock) }

func forget(s *row) { s.Expired = session.ExpiredLease{} }

// forgetting is a fault in the lease that expired of run-1.
func forgetting(change func(s *row)) fault {
	return leaving(func(_ lease, _ row, s *row) {
		if s.RunID == "run-1" {
			change(s)
		}
	})
}

// forgetsJudged is a fault in which a call about a judged session has it forget the lease that expired.
func forgetsJudged(method string) fault {
	return after(method, func(c *call) {
		if runID := c.judged.RunID; c.err == nil && slices.Contains([]string{"claimed", "warned", "kept"}, runID) {
			c.edit(runID, forget)
		}
	})
}

// forgetsEnd is a fault in which no lease is told of the ends of a run.
func forgetsEnd(runID string) fault { return after("Ended", func(c *call) { c.without(runID) }) }

func (c *call) without(runID string) {
	c.named = slices.DeleteFunc(c.named, func(a attempt) bool { return a.RunID == runID })
}

// tellsOf is a fault in which leases are told of the first attempt of a run, too.
func tellsOf(runID string, which func(c *call) bool) fault {
	return after("Ended", func(c *call) {
		setIf(which(c), &c.named, append(c.named, attempt{RunID: runID, Attempt: 1}))
	})
}

var brokenLeases = []broken{
	{"keeps the promise of a lease in milliseconds", "a lease is read as it was begun",
		before("BeginLease", func(c *call) { c.l.Promise = c.l.Promise.Truncate(time.Millisecond) })},
	{"begins a lease again", "beginning a lease that lives", around("BeginLease", func(c *call, next func()) {
		there := c.leaseOf(c.l.ID)
		if next(); c.err == nil && there.Beat >= 2 {
			_, _, c.err = c.m.ExpireLease(c.ctx, there)
			next()
		}
	})},
	{"begins a lease with any promise", "a lease with a promise",
		before("BeginLease", func(c *call) { c.l.Promise = max(min(c.l.Promise, session.LongestPromise), 0) })},
	{"keeps the clock of a renewal in microseconds", "a lease is read as it was begun",
		before("RenewLease", func(c *call) { c.l.Clock = c.l.Clock.Truncate(time.Microsecond) })},
	{"takes back what was vouched for", "nothing that a renewal writes",
		observes(func(_ *call, l *lease) { setIf(l.Beat == 3 && l.Vouched == time.Hour, &l.Vouched, time.Hour-1) })},
	{"makes a lease by a renewal", "a lease that was never begun", around("RenewLease", func(c *call, next func()) {
		if next(); c.l.Beat == 2 && c.l.Promise == time.Second {
			c.err = c.m.BeginLease(c.ctx, c.l)
		}
	})},
	{"observes only the suspects", "all leases are observed", after("ObserveLeases", func(c *call) {
		if len(c.leases) == 5 && len(c.suspects) > 0 {
			c.leases = slices.DeleteFunc(c.leases, func(l lease) bool { return !slices.Contains(c.suspects, l.ID) })
		}
	})},
	{"notes in a lease when it was observed", "to observe a lease", func() alteration {
		looks := 0
		return observes(func(c *call, l *lease) {
			if len(c.suspects) == 1 && l.Beat == 2 && l.Vouched == time.Hour {
				looks++
				l.RenewedAt = l.RenewedAt.Add(time.Duration(looks) * time.Second)
			}
		})()
	}},
	{"keeps a snapshot of the leases that it observed", "to observe a lease", func() alteration {
		seen := map[string]lease{}
		return observes(func(c *call, l *lease) {
			setIf(l.Vouched == time.Hour+time.Second && len(seen) > 0, l, seen[l.ID])
			if len(c.suspects) == 1 {
				seen[l.ID] = *l
			}
		})()
	}},
	{"returns ended sessions of a lease too", "the sessions of a lease", after("LeaseSessions", func(c *call) {
		ended := c.row("ended").Status == finished && c.row("second").Attempt == 2 && c.lease == "lease-1"
		setIf(ended, &c.named, append(c.named, attempt{RunID: "ended", Attempt: 1}))
	})},
	{"expires a lease whatever its beat is", "a lease that was renewed", before("ExpireLease", func(c *call) {
		there := c.leaseOf(c.l.ID)
		setIf(!there.Expired, &c.l.Beat, there.Beat)
	})},
	{"cannot expire what is not there", "a lease that was renewed", around("ExpireLease", func(c *call, next func()) {
		there := c.leaseOf(c.l.ID)
		next()
		setIf(there.ID == "" && c.err == nil, &c.err, errNoRows)
	})},
	{"takes the renewal of a lease for the last activity", "a session leaves its lease with",
		leavesAt(func(l lease) time.Time { return l.RenewedAt },
			func(_ lease, before row) bool { return before.Activity > 9*time.Hour })},
	{"takes no activity for one at the start of the lease", "a session leaves its lease with",
		leavesAt(leaseBegan, func(l lease, before row) bool {
			return before.Activity == noActivity && l.Vouched == 10*time.Hour
		})},
	{"forgets an attach after the last activity", "a session leaves its lease with",
		leavesAt(leaseBegan, func(l lease, before row) bool { return before.Activity == 0 && l.Vouched == 10*time.Hour })},
	{"finds NULL greater than any time", "a session leaves its lease with",
		leavesAt(func(lease) (none time.Time) { return none },
			func(_ lease, before row) bool { return before.LastEventAt.IsZero() })},
	{"leaves the thresholds of a lease switched off", "a session that left its lease",
		leaving(func(_ lease, before row, s *row) {
			setIf(before.Threshold == time.Minute, &s.Threshold, watchdog.NoLimit)
		})},
	{"keeps an expired lease without sessions", "expired lease takes", around("ExpireLease", func(c *call, next func()) {
		there, named := c.leaseOf(c.l.ID), c.rowsOf(c.l.ID)
		if next(); c.err == nil && len(named) == 1 && named[0].RunID == "dead" {
			c.err = c.m.BeginLease(c.ctx, there)
		}
	})},
	{"reads each session of a lease", "an unreadable session leaves", around("ExpireLease", func(c *call, next func()) {
		named, _ := c.m.LeaseSessions(c.ctx, c.l.ID)
		for _, a := range named {
			if _, c.err = c.m.Session(c.ctx, a.RunID); errors.Is(c.err, session.ErrUnreadable) {
				return
			}
		}
		next()
	})},
	{"compares the beat of a lease that has expired", "in batches", fails("ExpireLease", nil, func(c *call) bool {
		c.left = len(c.rowsOf(c.l.ID))
		there := c.leaseOf(c.l.ID)
		return there.Expired && there.Beat != c.l.Beat
	})},
	{"forgets that a process was lost", "a session is lost", before("ExpireLease", func(c *call) { c.l.Lost = false })},
	{"takes every process for lost", "a session is lost",
		leaving(func(_ lease, _ row, s *row) { s.Lost = s.Lost || s.RunID == "stopped" })},
	{"begins an expired lease again", "a lease that has expired never",
		after("BeginLease", func(c *call) { setIf(errors.Is(c.err, session.ErrLeaseExpired), &c.err, nil) })},
	{"attaches before it looks at the lease", "a lease that has expired never", after("Attach", func(c *call) {
		if c.s.Lease = ""; errors.Is(c.err, session.ErrLeaseExpired) {
			_, _, _ = c.m.Attach(c.ctx, c.s)
		}
	})},
	{"takes out rows that another lease has claimed", "keeper claims back", drops(func(c *call, s row, _ freshness) bool {
		to := c.leaseOf(c.lease)
		return s.Lease != c.lease && c.leaseOf(s.Lease).Expired && to.ID != "" && !to.Expired
	})},
	{"finds the sessions of an expired lease by what it vouched for", "names an expired", also(func(c *call, s row) bool {
		return c.q.Limit == 2*session.ExpireBatch && c.leaseOf("lease-1").Expired && strings.HasPrefix(s.RunID, "run-")
	})},
	{"remembers no lease that expired", "a session that left an expired lease", forgetting(forget)},
	{"remembers only the name of a lease that expired", "a session that left an expired lease",
		forgetting(func(s *row) { s.Expired.Looks = 0 })},
	{"lists no lease that expired", "left an expired", after("List", func(c *call) { each(c.listed.Sessions, forget) })},
	{"finds stalled sessions without the lease that expired", "a session that left an expired lease",
		after("Stalled", func(c *call) { each(c.page.Sessions, forget) })},
	{"remembers the first batch only", "leaves an expired lease late", around("ExpireLease", func(c *call, next func()) {
		there, named := c.leaseOf(c.l.ID), c.rowsOf(c.l.ID)
		if next(); there.Expired && len(named) == 1 && c.left == 0 && c.err == nil {
			c.edit(named[0].RunID, forget)
		}
	})},
	{"hides the lease that expired while another has the row", "forgets the lease that expired", func() alteration {
		var hidden session.ExpiredLease
		return both(freshens(func(s row, _ *freshness) { setIf(s.RunID == "back", &hidden, s.Expired) }),
			after("End", func(c *call) { c.edit("back", func(s *row) { s.Expired = hidden }) }))()
	}},
	{"keeps the lease of the attempt before", "forgets the lease that expired",
		attaches(func(before, _ row, after *row) { setIf(before.RunID == "again", &after.Expired, before.Expired) })},
	{"forgets the lease that expired when a session is claimed", "keeps the lease that expired", forgetsJudged("Claim")},
	{"forgets the lease that expired when a session is warned", "keeps the lease that expired", forgetsJudged("Warn")},
	{"forgets the lease that expired when a session is cancelled", "keeps the lease that expired",
		forgetsJudged("Cancel")},
	{"forgets what it has told", "a lease is told of each",
		after("Ended", func(c *call) { _, _ = c.m.Ended(c.ctx, c.lease, c.named) })},
	{"never forgets", "a lease is told of each",
		before("Ended", func(c *call) { setIf(len(c.told) > 0 && c.told[0].Attempt > 1, &c.told, nil) })},
	{"forgets all that lie between", "each lease is told of its own",
		before("Ended", func(c *call) { setIf(len(c.told) > 1, &c.told, append(c.told, attempt{RunID: "b", Attempt: 1})) })},
	{"forgets for every lease", "each lease is told of its own",
		before("Ended", func(c *call) { _, _ = c.m.Ended(c.ctx, "lease-2", c.told) })},
	{"tells of all that has ended", "nobody is told of",
		tellsOf("finished", func(c *call) bool { return c.row("finished").Status == finished })},
	{"tells somebody in any case", "nobody is told of",
		tellsOf("run-1", func(c *call) bool { return c.lease == "" && c.row("run-1").Status == cancelled })},
	{"does not tell of each of a batch", "together the leases", after("Ended", func(c *call) {
		if len(c.named) == 3 {
			c.without("b")
		}
	})},
	{"keeps what a lease was not told", "goes with it", func() alteration {
		expired := false
		return both(before("ExpireLease", func(*call) { expired = true }), tellsOf("run-1", func(c *call) bool {
			return expired && c.lease == "lease-1" && c.row("run-1").Status == cancelled
		}))()
	}},
}
