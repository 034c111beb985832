package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var storedEndRules = []rule{
	{
		"a cancel whose event is stored already writes down what that says, and nothing else",
		"a run that was ended by its own limit, and whose host died before it wrote the row, was not idle",
		func(ctx context.Context, store session.Store) error {
			return contract.Each(ownEnds("cancelled-"), func(own watchdog.Event) error {
				return writesDown(ctx, store, own, func(s session.Session) error {
					c := cancelOf(s.RunID)
					c.Resumes, c.StopFailed = 3, true
					c.Events = []watchdog.Event{warning(s.RunID), own}
					return cancelsAs(ctx, store, s, c, session.EndStored)
				})
			})
		},
	},
	{
		"a claim on a session whose end is stored already writes down what that says",
		"the agents of a run that has ended are not stopped, and the run is not resumed",
		func(ctx context.Context, store session.Store) error {
			return contract.Each(ownEnds("claimed-"), func(own watchdog.Event) error {
				return writesDown(ctx, store, own, func(s session.Session) error {
					got, err := store.Claim(ctx, s, session.ClaimRequest{By: by, For: time.Hour, EndID: own.ID})
					return came("claim", s.RunID, got, session.EndStored, err)
				})
			})
		},
	},
	{
		"a stored end that appears after the claim is written down by the cancel, with the claim",
		"the run may end while its agents are stopped",
		func(ctx context.Context, store session.Store) error {
			return claimed(ctx, store, time.Hour, func(s session.Session) error {
				own := ownEnd(s.RunID, true)
				if err := store.Append(ctx, own); err != nil {
					return err
				}
				err := cancels(ctx, store, s, session.EndStored)
				s.Status, s.Reason = session.StoredEnd(own)
				return errors.Join(err, looksLike(ctx, store, s))
			})
		},
	},
	{
		"a stored end that says how the run's command ended is in the row's state, with what that said",
		"a run whose guard died before it wrote the row would seem to have done its work, and is not run again",
		func(ctx context.Context, store session.Store) error {
			for name, judge := range map[string]func(session.Session, watchdog.Event) error{
				"claim": func(s session.Session, own watchdog.Event) error {
					got, err := store.Claim(ctx, s, session.ClaimRequest{By: by, For: time.Hour, EndID: own.ID})
					return came("claim", s.RunID, got, session.EndStored, err)
				},
				"cancel": func(s session.Session, own watchdog.Event) error {
					c := cancelOf(s.RunID)
					c.Events = []watchdog.Event{own}
					return cancelsAs(ctx, store, s, c, session.EndStored)
				},
			} {
				if err := failsStored(ctx, store, "failed by "+name, judge); err != nil {
					return fmt.Errorf("by %s: %w", name, err)
				}
			}
			return nil
		},
	},
	{
		"the end of another window is none of this one",
		"a run that was cancelled, resumed and stalled again is cancelled again",
		func(ctx context.Context, store session.Store) error {
			s, err := putSilent(ctx, store, homeRun, time.Hour)
			if err != nil {
				return err
			}
			if err := store.Append(ctx, cancelEvent("another", homeRun, noon)); err != nil {
				return err
			}
			return errors.Join(claims(ctx, store, s, by, session.Done), cancels(ctx, store, s, session.Done),
				recorded(ctx, store, homeRun, "another", "cancel of "+homeRun))
		},
	},
	{
		"a lease is told of a stored end that is written down",
		"the run may be live on another host, which has not looked into its events",
		func(ctx context.Context, store session.Store) error {
			all, err := attachEach(ctx, store, homeLease, "claimed", "cancelled")
			if err != nil {
				return err
			}
			return inOrder(
				func() error { return store.Append(ctx, ownEnd("claimed", true), ownEnd("cancelled", true)) },
				func() error { return claims(ctx, store, all[0], by, session.EndStored) },
				func() error { return cancels(ctx, store, all[1], session.EndStored) },
				func() error { return tells(ctx, store, homeLease, nil, attemptsOf(all)...) },
			)
		},
	},
	{
		"a listener is notified of a stored end that is written down",
		"the run may be live on another host, which has not looked into its events",
		func(ctx context.Context, store session.Store) error {
			return listening(ctx, store, func(told <-chan string) error {
				s, err := putSilent(ctx, store, homeRun, time.Hour)
				if err != nil {
					return err
				}
				return inOrder(
					func() error { return store.Append(ctx, ownEnd(homeRun, false)) },
					func() error { return claims(ctx, store, s, by, session.EndStored) },
					func() error { return receives(ctx, told, homeRun) },
				)
			})
		},
	},
}

// ownEnds are the ends of three runs that no sweeper wrote: by a limit of the run, by its host, and by another program.
func ownEnds(prefix string) []watchdog.Event {
	ends := []watchdog.Event{
		ownEnd(prefix+"limit", false), ownEnd(prefix+"complete", true), ownEnd(prefix+"unknown", false),
	}
	ends[2].Payload = []byte(`{"Reason":"idle_timeout"}`) // a key of another name
	return ends
}

// failsStored stores that the command of a run failed, and checks the row that judge has say that.
func failsStored(
	ctx context.Context, store session.Store, runID string, judge func(session.Session, watchdog.Event) error,
) error {
	s := newSession(runID)
	s.State = []byte(`{"phase":"tests","later":[1]}`)
	s, err := attach(ctx, store, s)
	if err != nil {
		return err
	}
	own := ownEnd(runID, true)
	own.Payload = []byte(`{"reason":"complete","outcome":"failed","exit_status":7}`)
	if err := store.Append(ctx, own); err != nil {
		return err
	}
	err = judge(s, own)
	s.Status, s.Reason = session.StoredEnd(own)
	s.State = []byte(`{"phase":"tests","later":[1],"outcome":"failed","exit_status":7}`)
	return errors.Join(err, looksLike(ctx, store, s))
}

// writesDown stores the end of a silent run, and checks that judge has the row say what that says.
func writesDown(
	ctx context.Context, store session.Store, own watchdog.Event, judge func(session.Session) error,
) error {
	s, err := putSilent(ctx, store, own.AggregateID, time.Hour)
	if err != nil {
		return err
	}
	if err := store.Append(ctx, own); err != nil {
		return err
	}
	err = judge(s)
	s.Status, s.Reason = session.StoredEnd(own)
	return errors.Join(err, looksLike(ctx, store, s), recorded(ctx, store, s.RunID, own.ID))
}
