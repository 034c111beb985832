package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

var pageRules = []rule{
	{
		"pages follow each other without a gap and without a repeat",
		"a session between two pages is never found, and one on both is cancelled twice",
		func(ctx context.Context, store session.Store) error {
			for _, limit := range []int{1, 4, 5} {
				if err := pages(ctx, store, limit); err != nil {
					return fmt.Errorf("pages of %d: %w", limit, err)
				}
			}
			return nil
		},
	},
	{
		"a page is as long as its limit where there is more",
		"a pass that cancels ten asks for ten, and not for a million",
		func(ctx context.Context, store session.Store) error {
			return aPage(ctx, store, 3, func(page session.Page) error {
				if len(page.Sessions) != 3 {
					return fmt.Errorf("a page of 3 has %q", names(page.Sessions))
				}
				return nil
			})
		},
	},
	{
		"the last page has no next one, and each before it has",
		"a pass that does not know whether it is through stops early, or never",
		func(ctx context.Context, store session.Store) error {
			return errors.Join(
				aPage(ctx, store, 4, func(page session.Page) error { return hasNext(page, true) }),
				aPage(ctx, store, 5, func(page session.Page) error { return hasNext(page, false) }),
				aPage(ctx, store, 6, func(page session.Page) error { return hasNext(page, false) }),
			)
		},
	},
	{
		"a page goes on behind its last session when that is cancelled meanwhile",
		"a pass cancels what a page has before it asks for the next: one that counts rows would skip as many as it cancelled",
		func(ctx context.Context, store session.Store) error {
			var first session.Page
			err := aPage(ctx, store, 2, func(page session.Page) error {
				first = page
				return each(page.Sessions, func(s session.Session) error { return cancels(ctx, store, s, true) })
			})
			if err != nil {
				return err
			}
			second, err := find(ctx, store, session.Query{Threshold: threshold, MinAge: minAge, Limit: 2, After: first.Next})
			if got := names(second.Sessions); err == nil && !slices.Equal(got, []string{"run-2", "run-3"}) {
				err = fmt.Errorf("the second page has %q", got)
			}
			return err
		},
	},
	{
		"a page without a session still has the time",
		"whether a host's clock is off can be seen only against the database's",
		func(ctx context.Context, store session.Store) error {
			s, err := attach(ctx, store, newSession(homeRun))
			if err != nil {
				return err
			}
			page, err := find(ctx, store, session.Query{Threshold: threshold, MinAge: minAge, Limit: 1})
			return errors.Join(err, within("Now", page.Now, s.CreatedAt, s.CreatedAt.Add(time.Hour)))
		},
	},
}

func hasNext(page session.Page, want bool) error {
	if got := page.Next != ""; got != want {
		return fmt.Errorf("after %q of five the next page is %q", names(page.Sessions), page.Next)
	}
	return nil
}

// aPage looks at the first page of run-0 to run-4.
func aPage(ctx context.Context, store session.Store, limit int, check func(session.Page) error) error {
	now, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	for i := range 5 {
		if err := put(ctx, store, silentSession(fmt.Sprint("run-", i), now, time.Hour-time.Duration(i)*time.Minute)); err != nil {
			return err
		}
	}
	page, err := find(ctx, store, session.Query{Threshold: threshold, MinAge: minAge, Limit: limit})
	if err != nil {
		return err
	}
	return check(page)
}

// pages reads page after page of rows of which several exceeded their thresholds at one moment.
func pages(ctx context.Context, store session.Store, limit int) error {
	now, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	var rows []session.Session
	for i := range 24 {
		beyond := time.Hour + time.Duration(i/4)*time.Minute
		s := silentSession(fmt.Sprintf("run %02d", i), now, threshold+beyond)
		if i%2 == 1 {
			s = withThreshold(silentSession(s.RunID, now, 5*time.Minute+beyond), 5*time.Minute)
		}
		rows = append(rows, s)
	}
	if err := put(ctx, store, rows...); err != nil {
		return err
	}
	var found []string
	for after, more := "", true; more && len(found) <= len(rows); {
		page, err := find(ctx, store, session.Query{Threshold: threshold, MinAge: minAge, Limit: limit, After: after})
		if err != nil {
			return err
		}
		found = append(found, names(page.Sessions)...)
		after, more = page.Next, page.Next != ""
	}
	slices.Sort(found)
	if want := names(rows); !slices.Equal(found, want) {
		return fmt.Errorf("found %q, want each of %q once", found, want)
	}
	return nil
}
