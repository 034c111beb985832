package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var pageRules = []rule{
	{
		"pages follow each other without a gap and without a repeat",
		"a session between two pages would never be found, and one on both would be cancelled twice",
		func(ctx context.Context, store session.Store) error {
			for _, limit := range []int{1, 4, 5} {
				if err := pages(ctx, store, limit); err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		"a page is as long as its limit if there are more sessions",
		"a pass that cancels ten sessions asks for ten, and not for a million",
		func(ctx context.Context, store session.Store) error {
			return firstPage(ctx, store, 3, func(page session.Page) error {
				if len(page.Sessions) != 3 {
					return fmt.Errorf("a page of 3 has %q", names(page.Sessions))
				}
				return nil
			})
		},
	},
	{
		"only the last page has no next one",
		"a pass that does not know which page is the last stops too early, or never",
		func(ctx context.Context, store session.Store) error {
			return errors.Join(
				firstPage(ctx, store, 4, func(page session.Page) error { return hasNext(page, true) }),
				firstPage(ctx, store, 5, func(page session.Page) error { return hasNext(page, false) }),
				firstPage(ctx, store, 6, func(page session.Page) error { return hasNext(page, false) }),
			)
		},
	},
	{
		"the next page follows the last session even if that was cancelled meanwhile",
		"a pass cancels the sessions of a page and then asks for the next: with an offset it would skip as many",
		func(ctx context.Context, store session.Store) error {
			var first session.Page
			err := firstPage(ctx, store, 2, func(page session.Page) error {
				first = page
				return contract.Each(page.Sessions, func(s session.Session) error { return cancels(ctx, store, s, session.Done) })
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
		"a host's clock can be checked only against the database's",
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

// firstPage checks the first page of run-0 to run-4.
func firstPage(ctx context.Context, store session.Store, limit int, check func(session.Page) error) error {
	now, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	for i := range 5 {
		silence := time.Hour - time.Duration(i)*time.Minute
		if err := put(ctx, store, silentSession(fmt.Sprint("run-", i), now, silence)); err != nil {
			return err
		}
	}
	page, err := find(ctx, store, session.Query{Threshold: threshold, MinAge: minAge, Limit: limit})
	if err != nil {
		return err
	}
	return check(page)
}

// pages reads all pages of rows, some of which exceeded their thresholds at the same moment.
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
	return pagesThrough(ctx, store, limit, names(rows))
}
