package sessiontest_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
)

const (
	// vouched is the instant up to which leases vouch, and covered that for the rows that they do not name.
	vouched = 1000 * 24 * time.Hour
	covered = vouched + 24*time.Hour
	// allowed is the allowance in the rules.
	allowed = 500 * 24 * time.Hour
)

// misses is a fault in which some stalled sessions are not found.
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

// hidesOneTime is a fault in which a session with such a threshold is found only on the first page, if it fell silent
// in the first microsecond of its lease.
func hidesOneTime(own time.Duration) fault {
	return misses(func(c *call, s row) bool {
		return c.q.After != "" && s.Lease != "" && s.Threshold == own && s.Activity == time.Microsecond
	})
}

var brokenStalled = []broken{
	{"takes the threshold itself for too long", "more than the threshold, to the microsecond",
		before("Stalled", func(c *call) { setIf(c.q.MinAge > 0, &c.q.Threshold, c.q.Threshold-time.Microsecond) })},
	{"wants a session to be older than the minimum age", "a session is old enough",
		misses(func(c *call, s row) bool { return s.Lease == "" && c.page.Now.Sub(s.CreatedAt) == 2*time.Minute })},
	{"does not find what has no last event", "a session without events is silent",
		misses(func(_ *call, s row) bool { return s.LastEventAt.IsZero() })},
	{"applies the sweeper's threshold to every session", "a threshold of its own", misses(func(c *call, s row) bool {
		return s.RunID == "short and silent" && c.page.Now.Sub(s.SilentSince()) <= 10*time.Minute
	})},
	{"takes off for a long threshold", "with the threshold NoLimit",
		finds("off", func(s row) bool { return s.Threshold == watchdog.NoLimit })},
	{"finds what has ended", "only active", finds("interrupted", func(s row) bool { return s.Status == interrupted })},
	{"orders by the last event", "sessions are ordered", after("Stalled", func(c *call) {
		leased := slices.ContainsFunc(c.page.Sessions, func(s row) bool { return s.Lease != "" })
		if c.page.Next == "" && !leased {
			slices.SortStableFunc(c.page.Sessions, func(a, b row) int { return a.SilentSince().Compare(b.SilentSince()) })
		}
	})},
	{"returns only some columns", "a stalled session is returned",
		pages(func(*call) bool { return true }, func(s *row) { s.Parent = "" })},
	{"fails if it cannot read a row", "is reported, is not stalled",
		after("Stalled", func(c *call) { c.err = errors.Join(append(c.page.Unreadable, c.err)...) })},
	{"continues after the time and not after the session", "pages follow each other", after("Stalled", func(c *call) {
		at, _, found := strings.Cut(c.page.Next, " ")
		setIf(found && c.q.Limit == 5 && strings.HasPrefix(c.page.Sessions[0].RunID, "run "), &c.page.Next, at+" \U0010ffff")
	})},
	{"returns one session more", "page is as", before("Stalled", func(c *call) { setIf(c.q.Limit == 3, &c.q.Limit, 4) })},
	{"has a next page after each full one", "only the last page", after("Stalled", func(c *call) {
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
	{"keeps the silence in the row", "each renewal",
		looks(func(s *row) { setIf(s.Silence == vouched-time.Hour, &s.Silence, 9*time.Hour) })},
	{"takes the threshold of a lease for too long", "a session of a lease is stalled",
		also(func(c *call, s row) bool { return s.Silence > 0 && s.Silence == c.q.Threshold })},
	{"does not look whether a session is quiet", "that is not quiet", also(func(c *call, s row) bool {
		return s.Silence == 0 && s.Activity == 0 && s.Threshold == 0 && s.RunID == "run-0" &&
			c.q.Threshold < c.leaseOf("lease-1").Vouched
	})},
	{"writes later activities only", "becomes quiet", drops(func(c *call, s row, f freshness) bool {
		return s.Lease == c.lease && s.Activity == f.Activity && f.State == nil
	})},
	{"takes no activity for an old one", "a session of a lease that has not signalled", also(func(c *call, s row) bool {
		return s.Activity == noActivity && s.Threshold > 0 && s.Threshold < c.leaseOf("lease-1").Vouched
	})},
	{"judges every session by the database's clock", "the database's clock says nothing", also(func(c *call, s row) bool {
		return s.RunID == "run-1" && c.page.Now.Sub(s.LastEventAt) > 300*24*time.Hour && s.Silence < c.q.Threshold
	})},
	{"does not look at the age of a session of a lease", "a session of a lease is old", also(func(c *call, s row) bool {
		return s.Silence > c.q.Threshold && c.page.Now.Sub(s.CreatedAt) < c.q.MinAge
	})},
	{"leaves out the silence of a stalled session", "a stalled session of a lease",
		pages(func(c *call) bool { return c.q.Limit == 10 }, func(s *row) { s.Silence = 0 })},
	{"returns the sessions of leases last", "lease and without one are", after("Stalled", func(c *call) {
		if c.page.Next == "" {
			slices.SortStableFunc(c.page.Sessions, func(a, b row) int { return len(a.Lease) - len(b.Lease) })
		}
	})},
	{"pages through the sessions of leases only once", "pages of sessions with a lease", misses(func(c *call, s row) bool {
		return c.q.After != "" && s.Lease != "" && strings.HasPrefix(s.RunID, "run ")
	})},
	{"hides sessions that fell silent with the last of a page", "with the query's threshold", hidesOneTime(0)},
	{"hides sessions of one threshold that fell silent with the last of a page", "of their own", hidesOneTime(time.Hour)},
	{"keeps the rows that are behind after they are written", "a renewal writes the rows",
		before("RenewLease", func(c *call) { setIf(len(c.l.Behind) == 0, &c.l.Behind, c.leaseOf(c.l.ID).Behind) })},
	{"takes the rows that are behind from any renewal", "rows that are behind are", before("RenewLease", func(c *call) {
		setIf(len(c.l.Behind) > 0, &c.l.Beat, max(c.l.Beat, c.leaseOf(c.l.ID).Beat+1))
	})},
	{"forgets the rows that are behind with a renewal that covers nothing", "a renewal that covers nothing",
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
	{"keeps an allowance that there is no more", "an allowance ends", looks(func(s *row) {
		setIf(s.RunID == "allowed" && s.Lease != "" && s.Activity == time.Millisecond, &s.Allowance, allowed)
	})},
	{"keeps the allowance of a dead process", "leaves its allowance behind",
		looks(func(s *row) { setIf(s.RunID == "allowed" && s.Lease == "", &s.Threshold, allowed) })},
	{"looks at no allowance", "more than its allowance",
		also(func(c *call, s row) bool { return s.Allowance > 0 && s.Silence > c.q.Threshold })},
	{"cancels within an allowance", "a silence that its allowance covers",
		before("Cancel", func(c *call) { setIf(c.judged.Allowance > 0, &c.judged.Silence, 0) })},
}
