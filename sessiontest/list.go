package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var listRules = []rule{
	{
		"sessions are listed in the order in which they were made, the newest first",
		"who looks at a page wants to see what runs now",
		func(ctx context.Context, store session.Store) error {
			return listed(ctx, store, func(all []string) error {
				return lists(ctx, store, session.ListQuery{}, all...)
			})
		},
	},
	{
		"sessions are listed by whether they are active",
		"a page shows what runs apart from what has ended",
		func(ctx context.Context, store session.Store) error {
			return listed(ctx, store, func(all []string) error {
				live := slices.DeleteFunc(slices.Clone(all), func(runID string) bool { return strings.Contains(runID, "ended") })
				ended := slices.DeleteFunc(slices.Clone(all), func(runID string) bool { return !strings.Contains(runID, "ended") })
				return errors.Join(
					lists(ctx, store, session.ListQuery{Live: true}, live...),
					lists(ctx, store, session.ListQuery{Ended: true}, ended...),
					lists(ctx, store, session.ListQuery{Live: true, Ended: true}, all...),
				)
			})
		},
	},
	{
		"sessions are listed by parent, host and reason, exactly as they are written",
		"an operator asks for the steps of a run, the runs of a host, and what was idle",
		func(ctx context.Context, store session.Store) error {
			return listed(ctx, store, func([]string) error {
				return errors.Join(
					lists(ctx, store, session.ListQuery{Parent: "run-1"}, "6 ended", "3", "0 ended"),
					lists(ctx, store, session.ListQuery{Parent: "run-_"}),
					lists(ctx, store, session.ListQuery{Host: "host-2"}, "5", "4 ended", "1"),
					lists(ctx, store, session.ListQuery{Host: "HOST-2"}),
					lists(ctx, store, session.ListQuery{Reason: why}, "2 ended", "0 ended"),
				)
			})
		},
	},
	{
		"sessions whose command failed are listed by that, and not as complete",
		"who asks what failed in the night does not want to read all that went well",
		func(ctx context.Context, store session.Store) error {
			for runID, e := range map[string]session.Ending{
				"1 done":      {Status: session.Finished, Reason: "complete"},
				"2 succeeded": {Status: session.Finished, Reason: "complete", State: []byte(`{"outcome":"succeeded"}`)},
				"3 failed":    {Status: session.Finished, Reason: "complete", State: []byte(`{"phase":"\"","outcome":"failed"}`)},
				"4 foreign":   {Status: session.Finished, Reason: "complete", State: []byte(`["outcome","failed"]`)},
				"5 stopped":   {Status: session.Cancelled, Reason: why, State: []byte(`{"outcome":"failed"}`)},
				"6 closed":    {Status: session.Finished, State: []byte(`{"outcome":"failed"}`)},
			} {
				s, err := attach(ctx, store, newSession(runID))
				if err != nil {
					return err
				}
				e.RunID, e.Attempt = runID, s.Attempt
				if err := end(ctx, store, e); err != nil {
					return err
				}
			}
			return errors.Join(
				listsSet(ctx, store, session.ReasonFailed, "3 failed"),
				listsSet(ctx, store, "complete", "1 done", "2 succeeded", "4 foreign"),
			)
		},
	},
	{
		"the conditions of a list must all hold",
		"with one of them only, a page of a host would show the runs of all",
		func(ctx context.Context, store session.Store) error {
			return listed(ctx, store, func([]string) error {
				return errors.Join(
					lists(ctx, store, session.ListQuery{Live: true, Host: "host-2"}, "5", "1"),
					lists(ctx, store, session.ListQuery{Ended: true, Parent: "run-1", Reason: why, Host: host}, "0 ended"),
					lists(ctx, store, session.ListQuery{Live: true, Reason: why}),
				)
			})
		},
	},
	{
		"pages of a list follow each other without a gap and without a repeat",
		"sessions that were made at one moment must not hide each other",
		func(ctx context.Context, store session.Store) error {
			return listed(ctx, store, func(all []string) error {
				return contract.Each([]int{1, 2, 3, len(all)}, func(limit int) error {
					return listsPages(ctx, store, session.ListQuery{Limit: limit}, all)
				})
			})
		},
	},
	{
		"the next page of a list follows the last session, whatever was made meanwhile",
		"with an offset a page would repeat a session for each new one",
		func(ctx context.Context, store session.Store) error {
			return listed(ctx, store, func(all []string) error {
				first, err := list(ctx, store, session.ListQuery{Limit: 3})
				if err != nil {
					return err
				}
				if _, err := attach(ctx, store, newSession("new")); err != nil {
					return err
				}
				return lists(ctx, store, session.ListQuery{After: first.Next}, all[3:]...)
			})
		},
	},
	{
		"a listed session is as its row is",
		"a page of a run must not say something else than the list",
		func(ctx context.Context, store session.Store) error {
			_, s, err := vouchedFor(ctx, store,
				session.Freshness{Activity: time.Hour + 1, Quiet: true, State: []byte(`{"phase":"tests"}`)})
			if err != nil {
				return err
			}
			if err := warns(ctx, store, s, session.Done); err != nil {
				return err
			}
			if s, err = look(ctx, store, homeRun); err != nil {
				return err
			}
			page, err := list(ctx, store, session.ListQuery{})
			if err == nil && len(page.Sessions) != 1 {
				err = fmt.Errorf("listed are %q", names(page.Sessions))
			}
			if err != nil {
				return err
			}
			return errors.Join(
				differs(page.Sessions[0], s), within("Now", page.Now, s.WarnedAt, s.WarnedAt.Add(time.Hour)))
		},
	},
	{
		"an unreadable session is reported on its page, and hides no other",
		"one bad row must not make a page empty",
		func(ctx context.Context, store session.Store) error {
			return listed(ctx, store, func(all []string) error {
				if err := store.(Putter).Spoil(ctx, all[3]); err != nil {
					return err
				}
				var unread []error
				var found []string
				for after, more := "", true; more && len(found) < len(all); {
					page, err := list(ctx, store, session.ListQuery{Limit: 2, After: after})
					if err != nil {
						return err
					}
					found, unread = append(found, names(page.Sessions)...), append(unread, page.Unreadable...)
					after, more = page.Next, page.Next != ""
				}
				if want := slices.Delete(slices.Clone(all), 3, 4); !slices.Equal(found, want) || len(unread) != 1 {
					return fmt.Errorf("listed are %q, want %q; unreadable %q", found, want, unread)
				}
				return unreadable(unread[0], all[3])
			})
		},
	},
	{
		"a limit of less than 1, and an After that is not the end of a page, are errors",
		"an empty page would look as if nothing ran",
		func(ctx context.Context, store session.Store) error {
			lister, err := listerOf(store)
			if err != nil {
				return err
			}
			wrong := []session.ListQuery{{}, {Limit: -1}, {Limit: 1, After: "yesterday"}}
			return contract.Each(wrong, func(q session.ListQuery) error {
				if _, err := lister.List(ctx, q); err == nil {
					return fmt.Errorf("the query %+v is no error", q)
				}
				return nil
			})
		},
	},
	{
		"a list with a done context returns the context's error",
		"an empty list would look as if nothing ran",
		func(ctx context.Context, store session.Store) error {
			lister, err := listerOf(store)
			if err != nil {
				return err
			}
			return withDoneContexts(ctx, "List", func(ctx context.Context) error {
				_, err := lister.List(ctx, session.ListQuery{Limit: 1})
				return err
			})
		},
	},
}

func listerOf(store session.Store) (session.Lister, error) {
	lister, ok := store.(session.Lister)
	if !ok {
		return nil, fmt.Errorf("%w: the store is not a session.Lister", errNotCheckable)
	}
	return lister, nil
}

// list lists sessions, at most 100 if the query has no limit.
func list(ctx context.Context, store session.Store, q session.ListQuery) (session.ListPage, error) {
	lister, err := listerOf(store)
	if err != nil {
		return session.ListPage{}, err
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	page, err := lister.List(ctx, q)
	if err != nil {
		return session.ListPage{}, fmt.Errorf("list %+v: %w", q, err)
	}
	return page, nil
}

// lists checks which sessions are listed.
func lists(ctx context.Context, store session.Store, q session.ListQuery, want ...string) error {
	page, err := list(ctx, store, q)
	if got := names(page.Sessions); err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("list %+v: listed are %q, want %q", q, got, want)
	}
	return err
}

// listsPages reads all pages of a list.
func listsPages(ctx context.Context, store session.Store, q session.ListQuery, want []string) error {
	var found []string
	for more := true; more && len(found) <= len(want); {
		page, err := list(ctx, store, q)
		if err != nil {
			return err
		}
		if n := len(page.Sessions); n > q.Limit || n == 0 {
			return fmt.Errorf("a page of %d has %q, after %q", q.Limit, names(page.Sessions), q.After)
		}
		found = append(found, names(page.Sessions)...)
		q.After, more = page.Next, page.Next != ""
	}
	if !slices.Equal(found, want) {
		return fmt.Errorf("pages of %d have %q, want %q", q.Limit, found, want)
	}
	return nil
}

// listed writes sessions of two parents, two hosts and several reasons, some of which were made at one moment, and
// checks lists of them. All are their names in order.
func listed(ctx context.Context, store session.Store, check func(all []string) error) error {
	if _, err := listerOf(store); err != nil {
		return err
	}
	now, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	rows := make([]session.Session, 7)
	for i := range rows {
		s := silentSession(fmt.Sprint(i), now, time.Minute)
		s.CreatedAt = now.Add(time.Duration(i/3-20) * time.Hour)
		if s.Parent = "run-2"; i%3 == 0 {
			s.Parent = "run-1"
		}
		rows[i] = s
	}
	for i, reason := range map[int]string{0: string(why), 2: string(why), 4: "complete", 6: ""} {
		rows[i].RunID += " ended"
		rows[i].Status, rows[i].Reason = session.Finished, watchdog.StopReason(reason)
	}
	for _, i := range []int{1, 4, 5} {
		rows[i].Host = "host-2"
	}
	if err := put(ctx, store, rows...); err != nil {
		return err
	}
	slices.Reverse(rows)
	return check(names(rows))
}

// listsSet expects the sessions with a reason, whichever was made first.
func listsSet(ctx context.Context, store session.Store, reason watchdog.StopReason, want ...string) error {
	page, err := list(ctx, store, session.ListQuery{Reason: reason})
	if err != nil {
		return err
	}
	got := slices.Sorted(slices.Values(names(page.Sessions)))
	if !slices.Equal(got, want) {
		return fmt.Errorf("listed with the reason %s are %q, want %q", string(reason), got, want)
	}
	return nil
}
