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
	"github.com/seed62658d38/watchdog/session"
)

// misses is a fault in which some stalled sessions are not found.
func misses(which func(c *stalledCall, s session.Session) bool) fault {
	return after(func(c *stalledCall) {
		c.page.Sessions = slices.DeleteFunc(c.page.Sessions, func(s session.Session) bool { return which(c, s) })
	})
}

// finds is a fault in which a session is found that is not stalled. It is not found by those who ask for the time.
func finds(runID string, which func(s session.Session) bool) fault {
	return after(func(c *stalledCall) {
		if s := c.row(runID); which(s) && c.q.Threshold != watchdog.NoLimit {
			c.page.Sessions = append(c.page.Sessions, s)
		}
	})
}

var brokenStalled = []broken{
	{"takes the threshold itself for too long", "a session is stalled after more than the threshold, to the microsecond",
		before(when(func(c *stalledCall) bool { return c.q.MinAge > 0 },
			func(c *stalledCall) { c.q.Threshold -= time.Microsecond }))},
	{"wants a session to be older than the minimum age", "a session is old enough at its minimum age",
		misses(func(c *stalledCall, s session.Session) bool {
			return s.Lease == "" && c.page.Now.Sub(s.CreatedAt) == 2*time.Minute
		})},
	{"does not find what has no last event", "a session without events is silent since its creation",
		misses(func(_ *stalledCall, s session.Session) bool { return s.LastEventAt.IsZero() })},
	{"applies the sweeper's threshold to every session", "a session with a threshold of its own is judged by that",
		misses(func(c *stalledCall, s session.Session) bool {
			return s.RunID == "short and silent" && c.page.Now.Sub(s.SilentSince()) <= 10*time.Minute
		})},
	{"takes off for a long threshold", "a session with the threshold NoLimit is never stalled",
		finds("off", func(s session.Session) bool { return s.Threshold == watchdog.NoLimit })},
	{"finds what has ended", "only active sessions are stalled",
		finds("interrupted", func(s session.Session) bool { return s.Status == session.Interrupted })},
	{"orders by the last event", "sessions are ordered by when they exceeded their thresholds",
		after(func(c *stalledCall) {
			leased := slices.ContainsFunc(c.page.Sessions, func(s session.Session) bool { return s.Lease != "" })
			if c.page.Next == "" && !leased {
				slices.SortStableFunc(c.page.Sessions, func(a, b session.Session) int {
					return a.SilentSince().Compare(b.SilentSince())
				})
			}
		})},
	{"returns only some columns", "a stalled session is returned exactly as its row is",
		after(func(c *stalledCall) {
			for i := range c.page.Sessions {
				c.page.Sessions[i].Parent = ""
			}
		})},
	{"fails if it cannot read a row", "an unreadable session is reported, is not stalled and hides no other",
		after(func(c *stalledCall) { c.err = errors.Join(append(c.page.Unreadable, c.err)...) })},
}

var brokenPages = []broken{
	{"continues after the time and not after the session", "pages follow each other without a gap and without a repeat",
		after(func(c *stalledCall) {
			if c.page.Next != "" && c.q.Limit == 5 && strings.HasPrefix(c.page.Sessions[0].RunID, "run ") {
				at, _, _ := strings.Cut(c.page.Next, " ")
				c.page.Next = at + " \U0010ffff"
			}
		})},
	{"returns one session more", "a page is as long as its limit if there are more sessions",
		before(when(func(c *stalledCall) bool { return c.q.Limit == 3 },
			func(c *stalledCall) { c.q.Limit++ }))},
	{"has a next page after each full one", "only the last page has no next one",
		after(when(func(c *stalledCall) bool { return len(c.page.Sessions) == c.q.Limit && c.page.Next == "" },
			func(c *stalledCall) { c.page.Next = fmt.Sprint(int64(math.MaxInt64), " \U0010ffff") }))},
	{"pages with an offset", "the next page follows the last session even if that was cancelled meanwhile",
		around(func(c *stalledCall, next func()) {
			from, _ := strconv.Atoi(cmp.Or(c.q.After, "0"))
			limit := c.q.Limit
			c.q.Limit, c.q.After = math.MaxInt32, ""
			next()
			found := c.page.Sessions[min(from, len(c.page.Sessions)):]
			if c.page.Sessions = found[:min(limit, len(found))]; len(found) > limit {
				c.page.Next = strconv.Itoa(from + limit)
			}
		})},
	{"returns the time only with sessions", "a page without a session still has the time",
		after(when(func(c *stalledCall) bool { return len(c.page.Sessions) == 0 && c.q.Threshold != watchdog.NoLimit },
			func(c *stalledCall) { c.page.Now = time.Time{} }))},
}
