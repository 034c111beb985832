package sessiontest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

// awayLease is the lease of another process.
const awayLease = "lease-away"

var endedRules = []rule{
	{
		"a lease is told of a session that is cancelled, until it says that it was told",
		"this is how a cancel reaches a live run on another host, which may lose an answer",
		func(ctx context.Context, store session.Store) error {
			s, err := attachLeased(ctx, store, homeLease, homeRun)
			if err != nil {
				return err
			}
			cancelled := session.AttemptID{RunID: homeRun, Attempt: 1}
			return inOrder(
				func() error { return cancels(ctx, store, s, session.Done) },
				func() error { return tells(ctx, store, homeLease, nil, cancelled) },
				func() error { return tells(ctx, store, homeLease, nil, cancelled) },
				func() error { return tells(ctx, store, homeLease, []session.AttemptID{cancelled}) },
				func() error { return tells(ctx, store, homeLease, nil) },
			)
		},
	},
	{
		"a lease is told once more of a run that is cancelled again",
		"a run that is cancelled, resumed and cancelled again must be told each time",
		func(ctx context.Context, store session.Store) error {
			if _, err := begin(ctx, store, homeLease); err != nil {
				return err
			}
			var told []session.AttemptID
			for attempt := 1; attempt <= 3; attempt++ {
				s, err := attach(ctx, store, underLease(newSession(homeRun), homeLease))
				if err != nil {
					return err
				}
				c := cancelOf(homeRun)
				c.Events[0].ID = fmt.Sprint("cancel ", attempt)
				err = inOrder(
					func() error { return cancelsAs(ctx, store, s, c, session.Done) },
					func() error {
						return tells(ctx, store, homeLease, told, session.AttemptID{RunID: homeRun, Attempt: attempt})
					},
				)
				if err != nil {
					return err
				}
				told = []session.AttemptID{{RunID: homeRun, Attempt: attempt}}
			}
			return nil
		},
	},
	{
		"what a lease was not told yet is not forgotten with what it was",
		"a session that is cancelled between two polls would run on",
		func(ctx context.Context, store session.Store) error {
			all, err := attachEach(ctx, store, homeLease, "a", "b", "c")
			if err != nil {
				return err
			}
			between, told := all[1:2], []session.Session{all[0], all[2]}
			return inOrder(
				func() error { return cancelsEach(ctx, store, told) },
				func() error { return tells(ctx, store, homeLease, nil, attemptsOf(told)...) },
				func() error { return cancelsEach(ctx, store, between) },
				func() error { return tells(ctx, store, homeLease, attemptsOf(told), attemptsOf(between)...) },
			)
		},
	},
	{
		"each lease is told of its own sessions only",
		"every process would read what the whole fleet has ended",
		func(ctx context.Context, store session.Store) error {
			home, err := attachEach(ctx, store, homeLease, "a", "b")
			if err != nil {
				return err
			}
			away, err := attachEach(ctx, store, awayLease, "c")
			if err != nil {
				return err
			}
			return inOrder(
				func() error { return cancelsEach(ctx, store, home) },
				func() error { return cancelsEach(ctx, store, away) },
				func() error { return tells(ctx, store, homeLease, attemptsOf(away), attemptsOf(home)...) },
				func() error { return tells(ctx, store, awayLease, nil, attemptsOf(away)...) },
			)
		},
	},
	{
		"a lease is not told of what it ended itself, or of what has not ended",
		"a keeper would read the events of all its runs again and again",
		func(ctx context.Context, store session.Store) error {
			if _, err := attachEach(ctx, store, homeLease, "finished", "live"); err != nil {
				return err
			}
			return inOrder(
				func() error {
					return end(ctx, store, session.Ending{RunID: "finished", Attempt: 1, Status: session.Finished})
				},
				func() error { return freshens(ctx, store, homeLease, session.Freshness{RunID: "live", Attempt: 1}) },
				func() error { return tells(ctx, store, homeLease, nil) },
			)
		},
	},
	{
		"of a session without a lease nobody is told when it is cancelled",
		"no process of ours runs it",
		func(ctx context.Context, store session.Store) error {
			s, err := attach(ctx, store, newSession(homeRun))
			if err != nil {
				return err
			}
			if _, err := begin(ctx, store, homeLease); err != nil {
				return err
			}
			return inOrder(
				func() error { return cancels(ctx, store, s, session.Done) },
				func() error { return tells(ctx, store, homeLease, nil) },
				func() error { return tells(ctx, store, "", nil) },
			)
		},
	},
	{
		"of sessions that are cancelled together the leases are told",
		"a sweeper cancels the sessions of a page together",
		func(ctx context.Context, store session.Store) error {
			batch, ok := store.(session.BatchCanceller)
			if !ok {
				return fmt.Errorf("%w: the store is not a session.BatchCanceller", errNotCheckable)
			}
			sessions, err := attachEach(ctx, store, homeLease, "a", "b", "c")
			if err != nil {
				return err
			}
			var all []session.BatchedCancel
			for _, s := range sessions {
				all = append(all, session.BatchedCancel{Judged: s, Request: cancelOf(s.RunID)})
			}
			return inOrder(
				func() error { return cancelsAll(ctx, batch, all, session.Done, session.Done, session.Done) },
				func() error { return tells(ctx, store, homeLease, nil, attemptsOf(sessions)...) },
			)
		},
	},
	{
		"what a lease was not told goes with it",
		"the ends of all processes that ever died would be kept for ever, and told to nobody",
		func(ctx context.Context, store session.Store) error {
			l, err := begin(ctx, store, homeLease)
			if err != nil {
				return err
			}
			s, err := attachUnder(ctx, store, homeLease, homeRun)
			if err != nil {
				return err
			}
			return inOrder(
				func() error { return cancels(ctx, store, s, session.Done) },
				func() error { return expires(ctx, store, l, true, 0) },
				func() error { return tells(ctx, store, homeLease, nil) },
				func() error { return store.BeginLease(ctx, l) }, // as no process does: IDs are random
				func() error { return tells(ctx, store, homeLease, nil) },
			)
		},
	},
}

// tells checks of which attempts a lease is told that was told of others.
func tells(
	ctx context.Context, store session.Store, lease string, told []session.AttemptID, want ...session.AttemptID,
) error {
	got, err := store.Ended(ctx, lease, told)
	if err != nil {
		return fmt.Errorf("ask for the ends of lease %q: %w", lease, err)
	}
	slices.SortFunc(got, compareAttempts)
	slices.SortFunc(want, compareAttempts)
	if !slices.Equal(got, want) {
		return fmt.Errorf("lease %q is told of %v, want %v", lease, got, want)
	}
	return nil
}

func compareAttempts(a, b session.AttemptID) int {
	return cmp.Or(cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.Attempt, b.Attempt))
}

// attachUnder attaches to a run under a lease.
func attachUnder(ctx context.Context, store session.Store, lease, runID string) (session.Session, error) {
	return attach(ctx, store, underLease(newSession(runID), lease))
}

// attachEach begins a lease and attaches to each run under it.
func attachEach(
	ctx context.Context, store session.Store, lease string, runIDs ...string,
) (all []session.Session, err error) {
	if _, err := begin(ctx, store, lease); err != nil {
		return nil, err
	}
	err = contract.Each(runIDs, func(runID string) error {
		s, err := attachUnder(ctx, store, lease, runID)
		all = append(all, s)
		return err
	})
	return all, err
}

func cancelsEach(ctx context.Context, store session.Store, all []session.Session) error {
	return contract.Each(all, func(s session.Session) error { return cancels(ctx, store, s, session.Done) })
}

func attemptsOf(all []session.Session) (ids []session.AttemptID) {
	for _, s := range all {
		ids = append(ids, session.AttemptID{RunID: s.RunID, Attempt: s.Attempt})
	}
	return ids
}

// finishes runs an attempt of a run from beginning to end.
func finishes(ctx context.Context, store session.Store, runID string) error {
	s, err := attach(ctx, store, newSession(runID))
	if err != nil {
		return err
	}
	return end(ctx, store, session.Ending{RunID: runID, Attempt: s.Attempt, Status: session.Finished})
}
