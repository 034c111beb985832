package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var togetherRules = []rule{
	{
		"sessions that are cancelled together each have their own row and events",
		"one that stays active is cancelled again, and one without its event goes on at its next start",
		func(ctx context.Context, store session.Store) error {
			return putTogether(ctx, store, 0, func(batch session.BatchCanceller, all []session.BatchedCancel) error {
				if err := cancelsAll(ctx, batch, all, session.Done, session.Done, session.Done); err != nil {
					return err
				}
				return contract.Each(all, func(c session.BatchedCancel) error { return isCancelled(ctx, store, c) })
			})
		},
	},
	{
		"of sessions that are cancelled together one that woke up is left alone, and the others are cancelled",
		"a page is a second old, and its runs go on meanwhile",
		func(ctx context.Context, store session.Store) error {
			return putTogether(ctx, store, 0, func(batch session.BatchCanceller, all []session.BatchedCancel) error {
				awake := all[1].Judged
				awake.LastEventAt = awake.LastEventAt.Add(time.Microsecond)
				if err := put(ctx, store, awake); err != nil {
					return err
				}
				return errors.Join(
					cancelsAll(ctx, batch, all, session.Done, session.Changed, session.Done),
					isCancelled(ctx, store, all[0]), isCancelled(ctx, store, all[2]),
					looksLike(ctx, store, awake), recorded(ctx, store, awake.RunID))
			})
		},
	},
	{
		"of sessions that are cancelled together one that is claimed is left alone, and the others are cancelled",
		"another sweeper is stopping its agents",
		func(ctx context.Context, store session.Store) error {
			return putTogether(ctx, store, 0, func(batch session.BatchCanceller, all []session.BatchedCancel) error {
				s := all[2].Judged
				if err := claims(ctx, store, s, "pass-2", session.Done); err != nil {
					return err
				}
				s.Claim = "pass-2"
				return errors.Join(
					cancelsAll(ctx, batch, all, session.Done, session.Done, session.Taken),
					isCancelled(ctx, store, all[0]), isCancelled(ctx, store, all[1]),
					looksLike(ctx, store, s), recorded(ctx, store, s.RunID))
			})
		},
	},
	{
		"of sessions that are cancelled together one whose end is stored has that end, at the latest after a cancel alone",
		"the events and the row of a run name one reason",
		func(ctx context.Context, store session.Store) error {
			return putTogether(ctx, store, 0, func(batch session.BatchCanceller, all []session.BatchedCancel) error {
				s := all[0].Judged
				own := ownEnd(s.RunID, true)
				if err := store.Append(ctx, own); err != nil {
					return err
				}
				if err := cancelsAll(ctx, batch, all, session.EndStored, session.Done, session.Done); err != nil {
					return err
				}
				outcome, err := store.Cancel(ctx, s, all[0].Request)
				if err == nil && outcome != session.EndStored && outcome != session.Changed {
					err = fmt.Errorf("alone the outcome is %q", outcome)
				}
				return errors.Join(err, agrees(ctx, store, s.RunID, session.EndStored),
					isCancelled(ctx, store, all[1]), isCancelled(ctx, store, all[2]))
			})
		},
	},
	{
		"of sessions that are cancelled together none is if an event is invalid",
		"the sweeper takes an error for a transaction that was rolled back, or whose answer was lost",
		func(ctx context.Context, store session.Store) error {
			return putTogether(ctx, store, 0, func(batch session.BatchCanceller, all []session.BatchedCancel) error {
				all[2].Request.Events = []watchdog.Event{cancelEvent("", all[2].Judged.RunID, noon)}
				if _, err := batch.CancelAll(ctx, all); !errors.Is(err, watchdog.ErrInvalid) {
					return fmt.Errorf("the error is %w, want watchdog.ErrInvalid", err)
				}
				return contract.Each(all, func(c session.BatchedCancel) error {
					return errors.Join(looksLike(ctx, store, c.Judged), recorded(ctx, store, c.Judged.RunID))
				})
			})
		},
	},
	{
		"of eight that cancel the same sessions together one cancels each, and only its events are stored",
		"several sweepers on several hosts may have the same page",
		func(ctx context.Context, store session.Store) error {
			for round := range rounds {
				err := putTogether(ctx, store, round, func(batch session.BatchCanceller, all []session.BatchedCancel) error {
					return onlyOneCancels(ctx, store, batch, all)
				})
				if err != nil {
					return fmt.Errorf("round %d: %w", round, err)
				}
			}
			return nil
		},
	},
}

// putTogether checks the cancels of three sessions, others in each round.
func putTogether(
	ctx context.Context, store session.Store, round int, check func(session.BatchCanceller, []session.BatchedCancel) error,
) error {
	batch, ok := store.(session.BatchCanceller)
	if !ok {
		return fmt.Errorf("%w: the store is not a session.BatchCanceller", errNotCheckable)
	}
	now, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	var all []session.BatchedCancel
	for i := range 3 {
		s := silentSession(fmt.Sprintf("run-%d-%d", round, i), now, time.Duration(i+1)*time.Hour)
		if err := put(ctx, store, s); err != nil {
			return err
		}
		all = append(all, session.BatchedCancel{Judged: s, Request: cancelOf(s.RunID)})
	}
	return check(batch, all)
}

// cancelsAll checks the outcomes. Of a session that is not cancelled nothing may have been decided.
func cancelsAll(
	ctx context.Context, batch session.BatchCanceller, all []session.BatchedCancel, want ...session.Outcome,
) error {
	outcomes, err := batch.CancelAll(ctx, all)
	if err != nil {
		return fmt.Errorf("cancel %d sessions together: %w", len(all), err)
	}
	same := slices.EqualFunc(outcomes, want, func(got, want session.Outcome) bool {
		return got == want || got == "" && want != session.Done
	})
	if !same {
		return fmt.Errorf("the outcomes are %q, want %q", outcomes, want)
	}
	return nil
}

// isCancelled checks that a session was cancelled as requested.
func isCancelled(ctx context.Context, store session.Store, c session.BatchedCancel) error {
	s := c.Judged
	s.Status, s.Reason, s.Claim = session.Cancelled, c.Request.Reason, c.Request.By
	var ids []string
	for _, e := range c.Request.Events {
		ids = append(ids, e.ID)
	}
	return errors.Join(looksLike(ctx, store, s), recorded(ctx, store, s.RunID, ids...))
}

// onlyOneCancels cancels the sessions from eight goroutines at once, each in another order.
func onlyOneCancels(
	ctx context.Context, store session.Store, batch session.BatchCanceller, all []session.BatchedCancel,
) error {
	var outcomes [8]map[string]session.Outcome
	err := contract.AtOnce(len(outcomes), func(caller int) error {
		own := slices.Clone(all)
		for i := range own {
			own[i].Request.By = fmt.Sprint("caller ", caller)
		}
		if caller%2 == 1 {
			slices.Reverse(own)
		}
		decided, err := batch.CancelAll(ctx, own)
		outcomes[caller] = map[string]session.Outcome{}
		for i, outcome := range decided {
			outcomes[caller][own[i].Judged.RunID] = outcome
		}
		return err
	})
	if err != nil {
		return err
	}
	return contract.Each(all, func(c session.BatchedCancel) error {
		won := 0
		for caller, decided := range outcomes {
			if decided[c.Judged.RunID] == session.Done {
				won++
				c.Request.By = fmt.Sprint("caller ", caller)
			}
		}
		if won != 1 {
			return fmt.Errorf("%d of %d calls cancelled run %s: %q", won, len(outcomes), c.Judged.RunID, outcomes)
		}
		return isCancelled(ctx, store, c)
	})
}
