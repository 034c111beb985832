package sessiontest

import (
	"context"
	"encoding/json"
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
		"an activity is read as it was written, to the nanosecond",
		"a cancel compares the activity with the judged one: a row that lost a digit could never be cancelled",
		func(ctx context.Context, store session.Store) error {
			want, err := attachLeased(ctx, store, homeLease, homeRun)
			if err != nil {
				return err
			}
			for _, want.Activity = range []time.Duration{0, 123_456_789, 1000*day + 1} {
				f := session.Freshness{RunID: homeRun, Attempt: 1, Activity: want.Activity}
				err := inOrder(
					func() error { return freshens(ctx, store, homeLease, f) },
					func() error { return looksLike(ctx, store, want) },
				)
				if err != nil {
					return err
				}
			}
			return nil
		},
	},
	{
		"freshening never takes an activity back, by the clock of its lease",
		"two writes in the wrong order would make a live session look silent",
		func(ctx context.Context, store session.Store) error {
			if _, err := attachLeased(ctx, store, homeLease, homeRun); err != nil {
				return err
			}
			f := session.Freshness{RunID: homeRun, Attempt: 1, Activity: 2 * time.Hour}
			if err := freshens(ctx, store, homeLease, f); err != nil {
				return err
			}
			s, err := look(ctx, store, homeRun)
			if err != nil {
				return err
			}
			return contract.Each([]time.Duration{f.Activity - 1, 0, session.NoActivity}, func(earlier time.Duration) error {
				f.Activity, f.Quiet, f.State = earlier, true, json.RawMessage(`{"phase":"earlier"}`)
				return errors.Join(freshens(ctx, store, homeLease, f), looksLike(ctx, store, s))
			})
		},
	},
	{
		"freshening puts a session without a lease into the lease, with its first activity",
		"after its process was taken for dead, a keeper claims its rows back like this",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			if _, err := begin(ctx, store, homeLease); err != nil {
				return err
			}
			return contract.Each([]time.Duration{session.NoActivity, time.Second}, func(activity time.Duration) error {
				s.Lease, s.Activity = homeLease, activity
				f := session.Freshness{RunID: homeRun, Attempt: 1, Activity: activity}
				return errors.Join(freshens(ctx, store, homeLease, f), looksLike(ctx, store, s))
			})
		},
	},
	{
		"freshening takes a session over from another lease, whatever its activity was by that lease's clock",
		"the clock of each lease begins at zero: an activity by one says nothing about an activity by another",
		func(ctx context.Context, store session.Store) error {
			s, err := attachLeased(ctx, store, homeLease, homeRun)
			if err != nil {
				return err
			}
			if _, err := begin(ctx, store, "lease-2"); err != nil {
				return err
			}
			f := session.Freshness{RunID: homeRun, Attempt: 1, Activity: 3 * time.Hour}
			if err := freshens(ctx, store, homeLease, f); err != nil {
				return err
			}
			f.Activity = time.Second
			s.Lease, s.Activity = "lease-2", f.Activity
			return errors.Join(freshens(ctx, store, "lease-2", f), looksLike(ctx, store, s))
		},
	},
	{
		"freshening writes the state that it has, and without one leaves the state as it is",
		"a state is written when it has changed, and a page shows it until then",
		func(ctx context.Context, store session.Store) error {
			if _, err := begin(ctx, store, homeLease); err != nil {
				return err
			}
			s := underLease(newSession(homeRun), homeLease)
			s.State = json.RawMessage(`{"phase":"first"}`)
			s, err := attach(ctx, store, s)
			if err != nil {
				return err
			}
			s.Activity = 0
			states := []json.RawMessage{nil, json.RawMessage(`{"phase":"second"}`), nil}
			return contract.Each(states, func(state json.RawMessage) error {
				s.Activity += time.Minute
				if state != nil {
					s.State = state
				}
				f := session.Freshness{RunID: homeRun, Attempt: 1, Activity: s.Activity, State: state}
				return errors.Join(freshens(ctx, store, homeLease, f), looksLike(ctx, store, s))
			})
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
			if _, err := begin(ctx, store, homeLease); err != nil {
				return err
			}
			gone, err := freshen(ctx, store, homeLease, session.Freshness{RunID: "unknown", Attempt: 1})
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
			if _, err := begin(ctx, store, homeLease); err != nil {
				return err
			}
			var fresh []session.Freshness
			for _, runID := range oddIDs {
				if _, err := attach(ctx, store, newSession(runID)); err != nil {
					return err
				}
				fresh = append(fresh, session.Freshness{RunID: runID, Attempt: 1})
			}
			return freshens(ctx, store, homeLease, fresh...)
		},
	},
	{
		"freshening nothing does nothing",
		"a caller that collected nothing does not have to check that before it writes",
		func(ctx context.Context, store session.Store) error {
			if _, err := begin(ctx, store, homeLease); err != nil {
				return err
			}
			return freshens(ctx, store, homeLease)
		},
	},
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
	if _, err := begin(ctx, store, homeLease); err != nil {
		return err
	}
	gone, err := freshen(ctx, store, homeLease, session.Freshness{RunID: homeRun, Attempt: 1})
	if err == nil && !slices.Equal(gone, []string{homeRun}) {
		err = fmt.Errorf("gone are %q, want the one that is %s in attempt %d", gone, status, attempt)
	}
	return errors.Join(err, looksLike(ctx, store, s))
}

// crowd is how many rows freshensMany has.
var crowd = func() int {
	if racing.Enabled {
		return 2000
	}
	return 10_000
}()

// freshensMany freshens all rows but every hundredth, and some runs that have no row.
func freshensMany(ctx context.Context, store session.Store) error {
	now, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	var rows []session.Session
	var fresh []session.Freshness
	var want, untouched []string
	for i := range crowd {
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
	if _, err := begin(ctx, store, homeLease); err != nil {
		return err
	}
	gone, err := freshen(ctx, store, homeLease, fresh...)
	if err == nil && !slices.Equal(gone, want) {
		err = fmt.Errorf("gone are %s, want %s", contract.Shorten(gone), contract.Shorten(want))
	}
	return errors.Join(err, findsOnly(ctx, store, untouched...))
}
