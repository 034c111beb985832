package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
)

var freshRules = []rule{
	{
		"the last event is as old as the caller says, by the clock of the store",
		"if a host's clock is two minutes slow, its sessions would be cancelled two minutes early",
		func(ctx context.Context, store session.Store) error { return freshens(ctx, store, 90*time.Minute) },
	},
	{
		"an age counts to the microsecond",
		"with ages cut to seconds each row would be up to a second behind its run",
		func(ctx context.Context, store session.Store) error {
			const apart = 123_457 * time.Microsecond
			now, err := clockOf(ctx, store)
			if err != nil {
				return err
			}
			if err := put(ctx, store, silentSession("a", now, day), silentSession("b", now, day)); err != nil {
				return err
			}
			_, err = freshen(ctx, store,
				session.Freshness{RunID: "a", Attempt: 1, Age: time.Hour},
				session.Freshness{RunID: "b", Attempt: 1, Age: time.Hour + apart})
			if err != nil {
				return err
			}
			a, err := look(ctx, store, "a")
			if err != nil {
				return err
			}
			b, err := look(ctx, store, "b")
			if got := a.LastEventAt.Sub(b.LastEventAt); err == nil && got != apart {
				err = fmt.Errorf("ages with a difference of %v give times with a difference of %v", apart, got)
			}
			return err
		},
	},
	{
		"freshening never moves the last event back",
		"two writes in the wrong order would make a live session look silent",
		func(ctx context.Context, store session.Store) error {
			s, err := attach(ctx, store, newSession(homeRun))
			if err != nil {
				return err
			}
			gone, err := freshen(ctx, store, session.Freshness{RunID: homeRun, Attempt: 1, Age: time.Hour})
			if err == nil && len(gone) > 0 {
				err = fmt.Errorf("gone are %q", gone)
			}
			return errors.Join(err, looksLike(ctx, store, s))
		},
	},
	{
		"a session without an event gets its first",
		"a row that another program created may have no last event, and its run may be alive",
		func(ctx context.Context, store session.Store) error {
			now, err := clockOf(ctx, store)
			if err != nil {
				return err
			}
			s := silentSession(homeRun, now, 0)
			s.LastEventAt = time.Time{}
			if err := put(ctx, store, s); err != nil {
				return err
			}
			if _, err := freshen(ctx, store, session.Freshness{RunID: homeRun, Attempt: 1, Age: time.Minute}); err != nil {
				return err
			}
			got, err := look(ctx, store, homeRun)
			return errors.Join(err, within("LastEventAt", got.LastEventAt, now.Add(-time.Minute), now.Add(time.Minute)))
		},
	},
	{
		"a session in another attempt is left alone and returned as gone",
		"a host that was taken for dead would keep the row of its successor fresh for ever",
		func(ctx context.Context, store session.Store) error {
			return freshensNothing(ctx, store, session.Active, 2)
		},
	},
	{
		"a session that has ended is left alone and returned as gone",
		"this is how a keeper learns that its run was cancelled",
		func(ctx context.Context, store session.Store) error {
			ended := []session.Status{session.Cancelled, session.Interrupted, session.Finished}
			return contract.Each(ended, func(status session.Status) error {
				return freshensNothing(ctx, store, status, 1)
			})
		},
	},
	{
		"a run that has no row is returned as gone",
		"a deleted row guards nothing, and its keeper must know",
		func(ctx context.Context, store session.Store) error {
			gone, err := freshen(ctx, store, session.Freshness{RunID: "unknown", Attempt: 1})
			if err == nil && !slices.Equal(gone, []string{"unknown"}) {
				err = fmt.Errorf("gone are %q", gone)
			}
			return err
		},
	},
	{
		"ten thousand sessions are freshened in one call, and no others",
		"a process writes the rows of all its runs at once; the store must get around a limit on parameters",
		freshensMany,
	},
	{
		"unusual run IDs are freshened like others",
		"a store that sends a list of IDs as one text may lose quotes and brackets",
		func(ctx context.Context, store session.Store) error {
			var fresh []session.Freshness
			for _, runID := range oddIDs {
				if _, err := attach(ctx, store, newSession(runID)); err != nil {
					return err
				}
				fresh = append(fresh, session.Freshness{RunID: runID, Attempt: 1})
			}
			gone, err := freshen(ctx, store, fresh...)
			if err == nil && len(gone) > 0 {
				err = fmt.Errorf("gone are %q", gone)
			}
			return err
		},
	},
	{
		"freshening nothing does nothing",
		"a caller that collected nothing does not have to check that before it writes",
		func(ctx context.Context, store session.Store) error {
			gone, err := freshen(ctx, store)
			if err == nil && len(gone) > 0 {
				err = fmt.Errorf("gone are %q", gone)
			}
			return err
		},
	},
}

// freshens checks the last event of a session that was silent for a day.
func freshens(ctx context.Context, store session.Store, age time.Duration) error {
	if _, err := putSilent(ctx, store, homeRun, day); err != nil {
		return err
	}
	from, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	if _, err := freshen(ctx, store, session.Freshness{RunID: homeRun, Attempt: 1, Age: age}); err != nil {
		return err
	}
	to, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	s, err := look(ctx, store, homeRun)
	return errors.Join(err, within("LastEventAt", s.LastEventAt, from.Add(-age), to.Add(-age)))
}

// freshensNothing checks that freshening attempt 1 does not change a session with this status and attempt.
func freshensNothing(ctx context.Context, store session.Store, status session.Status, attempt int) error {
	now, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	s := silentSession(homeRun, now, time.Hour)
	s.Status, s.Attempt = status, attempt
	if err := put(ctx, store, s); err != nil {
		return err
	}
	gone, err := freshen(ctx, store, session.Freshness{RunID: homeRun, Attempt: 1})
	if err == nil && !slices.Equal(gone, []string{homeRun}) {
		err = fmt.Errorf("gone are %q, want the one that is %s in attempt %d", gone, status, attempt)
	}
	return errors.Join(err, looksLike(ctx, store, s))
}

// freshensMany freshens all rows but every hundredth, and some runs that have no row.
func freshensMany(ctx context.Context, store session.Store) error {
	many := 10_000
	if racing.Enabled {
		many = 1000
	}
	now, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	var rows []session.Session
	var fresh []session.Freshness
	var want, untouched []string
	for i := range many {
		s := silentSession(fmt.Sprintf("run-%05d", i), now, day)
		rows = append(rows, s)
		if i%100 == 0 {
			untouched = append(untouched, s.RunID)
			continue
		}
		fresh = append(fresh, session.Freshness{RunID: s.RunID, Attempt: 1})
	}
	for i := range 50 {
		want = append(want, fmt.Sprintf("unknown-%02d", i))
		fresh = append(fresh, session.Freshness{RunID: want[i], Attempt: 1})
	}
	if err := put(ctx, store, rows...); err != nil {
		return err
	}
	gone, err := freshen(ctx, store, fresh...)
	if err == nil && !slices.Equal(gone, want) {
		err = fmt.Errorf("gone are %s, want %s", contract.Shorten(gone), contract.Shorten(want))
	}
	return errors.Join(err, findsOnly(ctx, store, untouched...))
}
