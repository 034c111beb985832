package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var startRules = []rule{
	{
		"a cancel can want a start of its run, which is claimed by then",
		"the sweeper that cancelled the run is about to start it, and may die before it does",
		func(ctx context.Context, store session.Store) error {
			from, err := clockOf(ctx, store)
			if err != nil {
				return err
			}
			s, err := toStart(ctx, store, "wanted")
			if err != nil {
				return err
			}
			to, err := clockOf(ctx, store)
			if s.Status != session.Cancelled || s.Start.Key != "cancel of wanted" || s.Start.Tries != 1 {
				err = errors.Join(err, fmt.Errorf("the row is %+v", s))
			}
			return errors.Join(err, within("Due", s.Start.Due, from.Add(time.Hour), to.Add(time.Hour)),
				listsStart(ctx, store, s), noneDue(ctx, store))
		},
	},
	{
		"sessions that are cancelled together can each want a start",
		"a page of runs that are to be started again costs one transaction",
		func(ctx context.Context, store session.Store) error {
			batch, ok := store.(session.BatchCanceller)
			if !ok {
				return fmt.Errorf("%w: the store is not a session.BatchCanceller", errNotCheckable)
			}
			var all []session.BatchedCancel
			for _, runID := range []string{"batched-1", "batched-2", "batched-3"} {
				s, err := attach(ctx, store, newSession(runID))
				if err != nil {
					return err
				}
				all = append(all, session.BatchedCancel{Judged: s, Request: cancelOf(runID)})
			}
			all[0].Request.StartFor, all[2].Request.StartFor = time.Hour, time.Hour
			return errors.Join(cancelsAll(ctx, batch, all, session.Done, session.Done, session.Done),
				wants(ctx, store, "batched-1", 1), wants(ctx, store, "batched-2", 0), wants(ctx, store, "batched-3", 1))
		},
	},
	{
		"no start is wanted after a cancel that does not say so, or that finds an end that is stored",
		"a run that has ended by itself would be started again",
		func(ctx context.Context, store session.Store) error {
			s, err := attach(ctx, store, newSession("unwanted"))
			if err != nil {
				return err
			}
			ended, err := attach(ctx, store, newSession("ended before"))
			if err != nil {
				return err
			}
			c := cancelOf(ended.RunID)
			c.StartFor = time.Microsecond
			return errors.Join(store.Append(ctx, ownEnd(ended.RunID, false)),
				cancels(ctx, store, s, session.Done), cancelsAs(ctx, store, ended, c, session.EndStored),
				wants(ctx, store, s.RunID, 0), wants(ctx, store, ended.RunID, 0), noneDue(ctx, store))
		},
	},
	{
		"a start that is due is claimed with the same key at each try, and its tries are counted",
		"the key tells whoever starts the run that it did so before, and the tries when to give up",
		func(ctx context.Context, store session.Store) error {
			s, err := dueStart(ctx, store, "again")
			for tries := 2; tries < 5 && err == nil; tries++ {
				s.Start.Tries = tries
				claimed, claimErr := claimsStart(ctx, store, s)
				err = errors.Join(claimErr, looksLike(ctx, store, claimed), putsOff(ctx, store, claimed, 0, true))
			}
			return err
		},
	},
	{
		"a start that was claimed or put off is not due before that is over",
		"the run would be started twice at once, and one that cannot be started now again and again",
		func(ctx context.Context, store session.Store) error {
			s, err := dueStart(ctx, store, "later")
			if err != nil {
				return err
			}
			s.Start.Tries = 2
			claimed, err := claimsStart(ctx, store, s)
			if err = errors.Join(err, noneDue(ctx, store)); err != nil {
				return err
			}
			from, err := clockOf(ctx, store)
			err = errors.Join(err, putsOff(ctx, store, claimed, 2*time.Hour, true), noneDue(ctx, store))
			to, clockErr := clockOf(ctx, store)
			row, rowErr := look(ctx, store, s.RunID)
			return errors.Join(err, clockErr, rowErr,
				within("Due", row.Start.Due, from.Add(2*time.Hour), to.Add(2*time.Hour)))
		},
	},
	{
		"a claim or a pause of a start lasts for a day at most",
		"a start that is due later is one of a clock that was set back since, and is claimed at once",
		func(ctx context.Context, store session.Store) error {
			s, err := dueStart(ctx, store, "for a week")
			if err != nil {
				return err
			}
			err = putsOff(ctx, store, s, 7*day, true)
			to, clockErr := clockOf(ctx, store)
			row, rowErr := look(ctx, store, s.RunID)
			return errors.Join(err, clockErr, rowErr, within("Due", row.Start.Due, s.CreatedAt.Add(day), to.Add(day)),
				noneDue(ctx, store))
		},
	},
	{
		"the start that has been due for the longest time is claimed first",
		"behind others that are tried again and again it would never have its turn",
		func(ctx context.Context, store session.Store) error {
			var all []session.Session
			for _, runID := range []string{"order-3", "order-1", "order-2"} {
				s, err := toStart(ctx, store, runID)
				if err != nil {
					return err
				}
				all = append(all, s)
			}
			all[0], all[1], all[2] = all[1], all[2], all[0]
			return errors.Join(
				contract.Each(all, func(s session.Session) error { return putsOff(ctx, store, s, 0, true) }),
				contract.Each(all, func(s session.Session) error {
					s.Start.Tries = 2
					_, err := claimsStart(ctx, store, s)
					return err
				}))
		},
	},
	{
		"of eight claims at once each takes another start that is due",
		"several sweepers on several hosts look for starts in the same second",
		func(ctx context.Context, store session.Store) error {
			const starts = 5
			for i := range starts {
				if _, err := dueStart(ctx, store, fmt.Sprint("race-", i)); err != nil {
					return err
				}
			}
			var claimed [8]session.Session
			err := contract.AtOnce(len(claimed), func(caller int) (err error) {
				claimed[caller], err = store.ClaimStart(ctx, time.Hour)
				if errors.Is(err, session.ErrNotFound) {
					err = nil
				}
				return err
			})
			times := map[string]int{}
			for _, s := range claimed {
				if s.RunID != "" {
					times[s.RunID]++
				}
			}
			for i := range starts {
				if n := times[fmt.Sprint("race-", i)]; err == nil && n != 1 {
					err = fmt.Errorf("race-%d was claimed %d times", i, n)
				}
			}
			return err
		},
	},
	{
		"only the latest claim of a start can put it off or give it up",
		"a sweeper that was stopped for long does not know that another one has taken the start over",
		func(ctx context.Context, store session.Store) error {
			late, err := dueStart(ctx, store, "late")
			if err != nil {
				return err
			}
			s := late
			s.Start.Tries = 2
			s, err = claimsStart(ctx, store, s)
			otherKey, otherAttempt := s, s
			otherKey.Start.Key, otherAttempt.Attempt = "another", s.Attempt+1
			err = errors.Join(err, putsOff(ctx, store, late, 0, false), putsOff(ctx, store, late, session.NoMoreStarts, false),
				putsOff(ctx, store, otherKey, 0, false), putsOff(ctx, store, otherAttempt, 0, false),
				looksLike(ctx, store, s))
			return errors.Join(err, putsOff(ctx, store, s, 2*time.Hour, true))
		},
	},
	{
		"a start that was given up is not wanted any more",
		"a run that cannot be started would be tried for ever",
		func(ctx context.Context, store session.Store) error {
			s, err := dueStart(ctx, store, "given up")
			if err != nil {
				return err
			}
			return errors.Join(putsOff(ctx, store, s, session.NoMoreStarts, true), wants(ctx, store, s.RunID, 0),
				noneDue(ctx, store), putsOff(ctx, store, s, 0, false))
		},
	},
	{
		"the next attempt of a run ends its start",
		"the run goes on, and would be started beside that",
		func(ctx context.Context, store session.Store) error {
			before, err := dueStart(ctx, store, "attached")
			if err != nil {
				return err
			}
			s, err := attach(ctx, store, newSession(before.RunID))
			if err != nil {
				return err
			}
			c := cancelOf(s.RunID)
			c.Events[0].ID = "second cancel"
			return errors.Join(noneDue(ctx, store), putsOff(ctx, store, before, 0, false), wants(ctx, store, s.RunID, 0),
				cancelsAs(ctx, store, s, c, session.Done), wants(ctx, store, s.RunID, 0), noneDue(ctx, store),
				putsOff(ctx, store, before, 0, false))
		},
	},
	{
		"a row that cannot be read does not hold up the other starts",
		"one row that another program wrote would keep all cancelled runs from going on",
		func(ctx context.Context, store session.Store) error {
			putter, ok := store.(Putter)
			if !ok {
				return fmt.Errorf("%w: the store is not a sessiontest.Putter", errNotCheckable)
			}
			spoilt, err := dueStart(ctx, store, "a-spoilt")
			if err != nil {
				return err
			}
			s, err := dueStart(ctx, store, "b-sound")
			if err = errors.Join(err, putter.Spoil(ctx, spoilt.RunID)); err != nil {
				return err
			}
			s.Start.Tries = 2
			_, err = store.ClaimStart(ctx, time.Hour)
			_, soundErr := claimsStart(ctx, store, s)
			return errors.Join(unreadable(err, spoilt.RunID), soundErr, noneDue(ctx, store))
		},
	},
	{
		"a call about starts with a done context changes nothing and returns the context's error",
		"a sweeper that was told nothing was claimed calls no Start, and waits until the claim is over",
		func(ctx context.Context, store session.Store) error {
			s, err := dueStart(ctx, store, "undone")
			if err != nil {
				return err
			}
			s, err = look(ctx, store, s.RunID)
			return errors.Join(err, withDoneContexts(ctx, "ClaimStart", func(ctx context.Context) error {
				_, err := store.ClaimStart(ctx, time.Hour)
				return err
			}), withDoneContexts(ctx, "PutOffStart", func(ctx context.Context) error {
				_, err := store.PutOffStart(ctx, s, time.Hour)
				return err
			}), looksLike(ctx, store, s))
		},
	},
}

// toStart attaches a run, has it cancelled with a start that is claimed for an hour, and returns its row.
func toStart(ctx context.Context, store session.Store, runID string) (session.Session, error) {
	s, err := attach(ctx, store, newSession(runID))
	if err != nil {
		return s, err
	}
	c := cancelOf(runID)
	c.StartFor = time.Hour
	if err := cancelsAs(ctx, store, s, c, session.Done); err != nil {
		return s, err
	}
	return look(ctx, store, runID)
}

// dueStart is toStart with a start that is due.
func dueStart(ctx context.Context, store session.Store, runID string) (session.Session, error) {
	s, err := toStart(ctx, store, runID)
	if err != nil {
		return s, err
	}
	return s, putsOff(ctx, store, s, 0, true)
}

// wants checks how often the start of a run was claimed; 0 is that of a run of which none is wanted.
func wants(ctx context.Context, store session.Store, runID string, tries int) error {
	s, err := look(ctx, store, runID)
	if err == nil && (s.Start.Tries != tries || (s.Start.Key == "") != (tries == 0)) {
		err = fmt.Errorf("the start of %s is %+v, want one with %d tries", runID, s.Start, tries)
	}
	return err
}

// claimsStart claims a start for an hour, and checks that it is that of a session, with its key and its tries.
func claimsStart(ctx context.Context, store session.Store, want session.Session) (session.Session, error) {
	s, err := store.ClaimStart(ctx, time.Hour)
	if err != nil {
		return s, fmt.Errorf("claim the start of %s: %w", want.RunID, err)
	}
	want.Start.Due = s.Start.Due
	return s, differs(s, want)
}

func noneDue(ctx context.Context, store session.Store) error {
	if s, err := store.ClaimStart(ctx, time.Hour); !errors.Is(err, session.ErrNotFound) {
		return fmt.Errorf("the claim of a start returned %+v and %w, want session.ErrNotFound", s, err)
	}
	return nil
}

// putsOff checks whether a start can be put off.
func putsOff(ctx context.Context, store session.Store, s session.Session, pause time.Duration, want bool) error {
	done, err := store.PutOffStart(ctx, s, pause)
	if err == nil && done != want {
		err = fmt.Errorf("it was done: %v", done)
	}
	if err != nil {
		return fmt.Errorf("put off the start of %s, claimed %d times, for %v: %w", s.RunID, s.Start.Tries, pause, err)
	}
	return nil
}

// listsStart checks what the list of a store that is a [session.Lister] says of a start.
func listsStart(ctx context.Context, store session.Store, want session.Session) error {
	page, err := list(ctx, store, session.ListQuery{})
	if errors.Is(err, errNotCheckable) {
		return nil
	}
	if err == nil && len(page.Sessions) != 1 {
		err = fmt.Errorf("listed are %+v", page.Sessions)
	}
	if err != nil {
		return err
	}
	return differs(page.Sessions[0], want)
}
