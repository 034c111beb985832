package sessiontest_test

import (
	"cmp"
	"context"
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

// asks returns a store that changes the query.
func asks(change func(q *session.Query)) func() session.Store {
	return with(func(a *altered) {
		a.stalled = func(m *session.Memory, ctx context.Context, q session.Query) (session.Page, error) {
			change(&q)
			return m.Stalled(ctx, q)
		}
	})
}

// answers returns a store that changes the page.
func answers(change func(m *session.Memory, q session.Query, page *session.Page)) func() session.Store {
	return with(func(a *altered) {
		a.stalled = func(m *session.Memory, ctx context.Context, q session.Query) (session.Page, error) {
			page, err := m.Stalled(ctx, q)
			if err == nil {
				change(m, q, &page)
			}
			return page, err
		}
	})
}

// misses returns a store that does not find some sessions.
func misses(which func(page session.Page, s session.Session) bool) func() session.Store {
	return answers(func(_ *session.Memory, _ session.Query, page *session.Page) {
		page.Sessions = slices.DeleteFunc(page.Sessions, func(s session.Session) bool { return which(*page, s) })
	})
}

// all returns all stalled sessions, without the limit of the query.
func all(m *session.Memory, q session.Query) []session.Session {
	q.Limit, q.After = math.MaxInt32, ""
	page, _ := m.Stalled(context.Background(), q)
	return page.Sessions
}

var brokenStalled = []broken{
	{
		"takes the threshold itself for too long", "a session is stalled after more than the threshold, to the microsecond",
		asks(func(q *session.Query) {
			if q.MinAge > 0 {
				q.Threshold -= time.Microsecond
			}
		}),
	},
	{
		"wants a session to be older than the minimum age", "a session is old enough at its minimum age",
		misses(func(page session.Page, s session.Session) bool {
			return s.Lease == "" && page.Now.Sub(s.CreatedAt) == 2*time.Minute
		}),
	},
	{
		"does not find what has no last event", "a session without events is silent since its creation",
		misses(func(_ session.Page, s session.Session) bool { return s.LastEventAt.IsZero() }),
	},
	{
		"applies the sweeper's threshold to every session", "a session with a threshold of its own is judged by that",
		misses(func(page session.Page, s session.Session) bool {
			return s.RunID == "short and silent" && page.Now.Sub(s.SilentSince()) <= 10*time.Minute
		}),
	},
	{
		"takes off for a long threshold", "a session with the threshold NoLimit is never stalled",
		answers(func(m *session.Memory, q session.Query, page *session.Page) {
			if s := row(m, "off"); s.Threshold == watchdog.NoLimit && q.Threshold != watchdog.NoLimit {
				page.Sessions = append(page.Sessions, s)
			}
		}),
	},
	{
		"finds what has ended", "only active sessions are stalled",
		answers(func(m *session.Memory, q session.Query, page *session.Page) {
			if s := row(m, "interrupted"); s.Status == session.Interrupted && q.Threshold != watchdog.NoLimit {
				page.Sessions = append(page.Sessions, s)
			}
		}),
	},
	{
		"orders by the last event", "sessions are ordered by when they exceeded their thresholds",
		answers(func(_ *session.Memory, _ session.Query, page *session.Page) {
			leased := slices.ContainsFunc(page.Sessions, func(s session.Session) bool { return s.Lease != "" })
			if page.Next == "" && !leased {
				slices.SortStableFunc(page.Sessions, func(a, b session.Session) int {
					return a.SilentSince().Compare(b.SilentSince())
				})
			}
		}),
	},
	{
		"returns only some columns", "a stalled session is returned exactly as its row is",
		answers(func(_ *session.Memory, _ session.Query, page *session.Page) {
			for i := range page.Sessions {
				page.Sessions[i].Parent = ""
			}
		}),
	},
	{
		"fails if it cannot read a row", "an unreadable session is reported, is not stalled and hides no other",
		with(func(a *altered) {
			a.stalled = func(m *session.Memory, ctx context.Context, q session.Query) (session.Page, error) {
				page, err := m.Stalled(ctx, q)
				return page, errors.Join(append(page.Unreadable, err)...)
			}
		}),
	},
}

var brokenPages = []broken{
	{
		"continues after the time and not after the session", "pages follow each other without a gap and without a repeat",
		with(func(a *altered) {
			a.stalled = func(m *session.Memory, ctx context.Context, q session.Query) (session.Page, error) {
				page, err := m.Stalled(ctx, q)
				if page.Next != "" && q.Limit == 5 && page.Sessions[0].RunID[:4] == "run " {
					at, _, _ := strings.Cut(page.Next, " ")
					page.Next = at + " \U0010ffff"
				}
				return page, err
			}
		}),
	},
	{
		"returns one session more", "a page is as long as its limit if there are more sessions",
		with(func(a *altered) {
			a.stalled = func(m *session.Memory, ctx context.Context, q session.Query) (session.Page, error) {
				if q.Limit == 3 {
					q.Limit++
				}
				return m.Stalled(ctx, q)
			}
		}),
	},
	{
		"has a next page after each full one", "only the last page has no next one",
		answers(func(_ *session.Memory, q session.Query, page *session.Page) {
			if n := len(page.Sessions); n == q.Limit && page.Next == "" {
				page.Next = fmt.Sprint(int64(math.MaxInt64), " \U0010ffff")
			}
		}),
	},
	{
		"pages with an offset", "the next page follows the last session even if that was cancelled meanwhile",
		with(func(a *altered) {
			a.stalled = func(m *session.Memory, ctx context.Context, q session.Query) (session.Page, error) {
				from, _ := strconv.Atoi(cmp.Or(q.After, "0"))
				q.After = ""
				page, err := m.Stalled(ctx, q)
				if err != nil {
					return page, err
				}
				found := all(m, q)
				found = found[min(from, len(found)):]
				page.Sessions, page.Next = found[:min(q.Limit, len(found))], ""
				if len(found) > q.Limit {
					page.Next = strconv.Itoa(from + q.Limit)
				}
				return page, nil
			}
		}),
	},
	{
		"returns the time only with sessions", "a page without a session still has the time",
		answers(func(_ *session.Memory, q session.Query, page *session.Page) {
			if len(page.Sessions) == 0 && q.Threshold != watchdog.NoLimit {
				page.Now = time.Time{}
			}
		}),
	},
}
