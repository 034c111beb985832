package sessiontest_test

import (
	"context"
	"errors"
	"slices"

	"github.com/seed62658d38/watchdog/session"
)

// listsWith returns a store that changes the query of a list.
func listsWith(change func(q *session.ListQuery)) func() session.Store {
	return with(func(a *altered) {
		a.list = func(m *session.Memory, ctx context.Context, q session.ListQuery) (session.ListPage, error) {
			change(&q)
			return m.List(ctx, q)
		}
	})
}

// shows returns a store that changes a page of a list.
func shows(change func(m *session.Memory, q session.ListQuery, page *session.ListPage) error) func() session.Store {
	return with(func(a *altered) {
		a.list = func(m *session.Memory, ctx context.Context, q session.ListQuery) (session.ListPage, error) {
			page, err := m.List(ctx, q)
			if err == nil {
				err = change(m, q, &page)
			}
			return page, err
		}
	})
}

var brokenLists = []broken{
	{
		"takes each complete session for one whose command failed",
		"sessions whose command failed are listed by that, and not as complete",
		listsWith(func(q *session.ListQuery) {
			if q.Reason == session.ReasonFailed {
				q.Reason = "complete"
			}
		}),
	},
	{
		"lists the oldest session first",
		"sessions are listed in the order in which they were made, the newest first",
		shows(func(_ *session.Memory, q session.ListQuery, page *session.ListPage) error {
			if q == (session.ListQuery{Limit: 100}) {
				slices.Reverse(page.Sessions)
			}
			return nil
		}),
	},
	{
		"takes both kinds for none", "sessions are listed by whether they are active",
		shows(func(_ *session.Memory, q session.ListQuery, page *session.ListPage) error {
			if q.Live && q.Ended {
				page.Sessions = nil
			}
			return nil
		}),
	},
	{
		"takes a parent for a pattern", "sessions are listed by parent, host and reason, exactly as they are written",
		listsWith(func(q *session.ListQuery) {
			if q.Parent == "run-_" {
				q.Parent = ""
			}
		}),
	},
	{
		"uses one condition only", "the conditions of a list must all hold",
		listsWith(func(q *session.ListQuery) {
			if q.Host != "" {
				q.Live = false
			}
		}),
	},
	{
		"continues a list after the time and not after the session",
		"pages of a list follow each other without a gap and without a repeat",
		shows(func(_ *session.Memory, q session.ListQuery, page *session.ListPage) error {
			if q.Limit == 1 && q.After != "" && page.Next != "" {
				page.Sessions = nil
			}
			return nil
		}),
	},
	{
		"pages through a list with an offset",
		"the next page of a list follows the last session, whatever was made meanwhile",
		shows(func(m *session.Memory, q session.ListQuery, page *session.ListPage) error {
			if q.After != "" && q.Limit == 100 {
				whole, err := m.List(context.Background(), session.ListQuery{Limit: 100})
				page.Sessions = whole.Sessions[3:]
				return err
			}
			return nil
		}),
	},
	{
		"lists sessions without their silence", "a listed session is as its row is",
		shows(func(_ *session.Memory, _ session.ListQuery, page *session.ListPage) error {
			for i := range page.Sessions {
				page.Sessions[i].Silence = 0
			}
			return nil
		}),
	},
	{
		"cannot list an unreadable session", "an unreadable session is reported on its page, and hides no other",
		shows(func(_ *session.Memory, _ session.ListQuery, page *session.ListPage) error {
			return errors.Join(page.Unreadable...)
		}),
	},
	{
		"begins again where it does not know where to go on",
		"a limit of less than 1, and an After that is not the end of a page, are errors",
		listsWith(func(q *session.ListQuery) {
			if q.After == "yesterday" {
				q.After = ""
			}
		}),
	},
	{
		"ignores the context of a list", "a list with a done context returns the context's error",
		with(func(a *altered) {
			a.list = func(m *session.Memory, ctx context.Context, q session.ListQuery) (session.ListPage, error) {
				return m.List(context.WithoutCancel(ctx), q)
			}
		}),
	},
}
