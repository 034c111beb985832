package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var outboxRules = []rule{
	{
		"the end of a window is a notice, whoever stores it",
		"a stop that nobody is told of is found the next morning",
		func(ctx context.Context, store session.Store) error {
			return withOutbox(ctx, store, func(box session.Outbox) error {
				s, err := attach(ctx, store, newSession("cancelled"))
				if err != nil {
					return err
				}
				return inOrder(
					func() error { return store.Append(ctx, ownEnd("stopped", false)) },
					func() error { return store.Append(ctx, ownEnd("completed", true)) },
					func() error { return cancels(ctx, store, s, session.Done) },
					func() error {
						return claimsIDs(ctx, box, "cancel of stopped", "cancel of completed", "cancel of cancelled")
					},
				)
			})
		},
	},
	{
		"the end of a window that is decided in a transaction is a notice",
		"most ends are: a run writes its own so",
		func(ctx context.Context, store session.Store) error {
			return withOutbox(ctx, store, func(box session.Outbox) error {
				return inOrder(
					func() error { return transacts(ctx, store, warning(homeRun), ownEnd(homeRun, false)) },
					func() error { return transacts(ctx, store, ownEnd("decided", true)) },
					func() error { return claimsIDs(ctx, box, "cancel of "+homeRun, "cancel of decided") },
				)
			})
		},
	},
	{
		"the ends of sessions that are cancelled together are notices",
		"a sweeper that finds a dead host cancels all of its runs so",
		func(ctx context.Context, store session.Store) error {
			return withOutbox(ctx, store, func(box session.Outbox) error {
				batch, ok := store.(session.BatchCanceller)
				if !ok {
					return fmt.Errorf("%w: the store is not a session.BatchCanceller", errNotCheckable)
				}
				var all []session.BatchedCancel
				var ids []string
				for i := range 3 {
					s, err := attach(ctx, store, newSession(fmt.Sprint("together-", i)))
					if err != nil {
						return err
					}
					all = append(all, session.BatchedCancel{Judged: s, Request: cancelOf(s.RunID)})
					ids = append(ids, all[i].Request.Events[0].ID)
				}
				return inOrder(
					func() error { return cancelsAll(ctx, batch, all, session.Done, session.Done, session.Done) },
					func() error { return claimsIDs(ctx, box, ids...) },
				)
			})
		},
	},
	{
		"an end that is stored already is not a notice again",
		"a host that starts again stores its end again, and nobody wants to be called for each start",
		func(ctx context.Context, store session.Store) error {
			return withOutbox(ctx, store, func(box session.Outbox) error {
				s, err := attach(ctx, store, newSession(homeRun))
				if err != nil {
					return err
				}
				own := ownEnd(homeRun, true)
				return inOrder(
					func() error { return store.Append(ctx, own, own) },
					func() error { return claimsIDs(ctx, box, own.ID) },
					func() error { return box.FinishNotices(ctx, session.Notice{ID: own.ID}) },
					func() error { return store.Append(ctx, own) },
					func() error { return transacts(ctx, store, own, own) },
					func() error { return cancels(ctx, store, s, session.EndStored) },
					func() error { return claimsIDs(ctx, box) },
				)
			})
		},
	},
	{
		"no other event is a notice",
		"who is told of every warning reads none",
		func(ctx context.Context, store session.Store) error {
			return withOutbox(ctx, store, func(box session.Outbox) error {
				foreign, extend := ownEnd(homeRun, true), ownEnd(homeRun, false)
				foreign.ID, foreign.AggregateType = "foreign", "another"
				extend.ID, extend.Type = "extend", watchdog.EventExtend
				return inOrder(
					func() error { return store.Append(ctx, warning(homeRun), foreign, extend) },
					func() error { return claimsIDs(ctx, box) },
				)
			})
		},
	},
	{
		"an end that was not stored is not a notice",
		"who is told that a run was stopped starts it again, beside the one that goes on",
		func(ctx context.Context, store session.Store) error {
			return withOutbox(ctx, store, func(box session.Outbox) error {
				s, err := attach(ctx, store, newSession("awake"))
				if err != nil {
					return err
				}
				s.Attempt++
				invalid := warning(homeRun)
				invalid.Type = ""
				if err := store.Append(ctx, ownEnd(homeRun, false), invalid); err == nil {
					return errors.New("an invalid event was stored")
				}
				return inOrder(
					func() error { return cancels(ctx, store, s, session.Changed) },
					func() error { return claimsIDs(ctx, box) },
				)
			})
		},
	},
	{
		"a notice says what the event is, and when it was put by the database's clock",
		"whoever gets it looks for the run, and drops what is too old",
		func(ctx context.Context, store session.Store) error {
			return withOutbox(ctx, store, func(box session.Outbox) error {
				var n int
				return contract.Each(oddIDs, func(runID string) error {
					n++
					e := ownEnd(runID, false)
					if e.ID = runID; len(runID) > watchdog.MaxEventID {
						e.ID = fmt.Sprint("end ", n)
					}
					return putNow(ctx, store, box, func() error { return store.Append(ctx, e) }, session.Notice{
						ID: e.ID, AggregateType: e.AggregateType, AggregateID: runID, Type: e.Type, Tries: 1,
					})
				})
			})
		},
	},
	{
		"a notice that is put is claimed as it was put",
		"an alert names what it is about",
		func(ctx context.Context, store session.Store) error {
			return withOutbox(ctx, store, func(box session.Outbox) error {
				n := alertOf("alert-1")
				put := n
				put.CreatedAt, put.Tries, put.Waited = noon, 7, time.Hour
				n.Tries = 1
				return putNow(ctx, store, box, func() error { return box.PutNotices(ctx, put) }, n)
			})
		},
	},
	{
		"a notice whose ID is there is not put again",
		"an alert is put by each sweeper that finds its reason, in each of its passes",
		func(ctx context.Context, store session.Store) error {
			return withOutbox(ctx, store, func(box session.Outbox) error {
				first, other := alertOf("alert-1"), alertOf("alert-1")
				other.Type = "another"
				if err := errors.Join(box.PutNotices(ctx, first, other), box.PutNotices(ctx, other)); err != nil {
					return err
				}
				got, err := claimNotices(ctx, box, 10, time.Hour)
				if err == nil && (len(got) != 1 || got[0].Type != first.Type) {
					err = fmt.Errorf("claimed are %+v, want one of type %s", got, first.Type)
				}
				return inOrder(
					func() error { return err },
					func() error { return box.PutNotices(ctx, other) },
					func() error { return claimsIDs(ctx, box) },
				)
			})
		},
	},
	{
		"if one of several notices is invalid none is put",
		"the caller repeats the call, and does not know which it has to leave out",
		func(ctx context.Context, store session.Store) error {
			return withOutbox(ctx, store, func(box session.Outbox) error {
				invalid := alertOf("")
				if err := box.PutNotices(ctx, alertOf("alert-1"), invalid); !errors.Is(err, watchdog.ErrInvalid) {
					return fmt.Errorf("the error is %w, want watchdog.ErrInvalid", err)
				}
				return claimsIDs(ctx, box)
			})
		},
	},
	{
		"notices are claimed in the order in which they were put, at most so many",
		"who is told late is told of the oldest first",
		func(ctx context.Context, store session.Store) error {
			return withPut(ctx, store, 7, func(box session.Outbox) error {
				return inOrder(
					func() error { return claimsSome(ctx, box, 3, time.Hour, "alert-0", "alert-1", "alert-2") },
					func() error { return claimsSome(ctx, box, 3, time.Hour, "alert-3", "alert-4", "alert-5") },
					func() error { return claimsSome(ctx, box, 3, time.Hour, "alert-6") },
				)
			})
		},
	},
	{
		"no call claims a notice while another claim of it lasts",
		"its receiver would be told twice for each slow answer",
		func(ctx context.Context, store session.Store) error {
			return withPut(ctx, store, 1, func(box session.Outbox) error {
				return inOrder(
					func() error { return claimsIDs(ctx, box, "alert-0") },
					func() error { return claimsIDs(ctx, box) },
				)
			})
		},
	},
	{
		"a notice is due again when its claim is over, and says how often it was claimed",
		"whoever claimed it may have been killed",
		func(ctx context.Context, store session.Store) error {
			return withPut(ctx, store, 1, func(box session.Outbox) error {
				for tries := 1; tries <= 3; tries++ {
					got, err := claimNotices(ctx, box, 1, 0)
					if err == nil && (len(got) != 1 || got[0].Tries != tries) {
						err = fmt.Errorf("claimed are %+v, want one with %d tries", got, tries)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	},
	{
		"what was never claimed is claimed before what was",
		"a receiver that is down does not hold up word of a run that has just stopped",
		func(ctx context.Context, store session.Store) error {
			return withPut(ctx, store, 3, func(box session.Outbox) error {
				return inOrder(
					func() error { return claimsSome(ctx, box, 2, 0, "alert-0", "alert-1") },
					func() error { return claimsSome(ctx, box, 3, time.Hour, "alert-2", "alert-0", "alert-1") },
				)
			})
		},
	},
	{
		"a finished notice does not come again, whoever claimed it last",
		"the answer of a slow receiver can come when another has claimed the notice",
		func(ctx context.Context, store session.Store) error {
			return withPut(ctx, store, 3, func(box session.Outbox) error {
				first, err := claimNotices(ctx, box, 2, 0)
				if err != nil {
					return err
				}
				return inOrder(
					func() error { return claimsSome(ctx, box, 10, 0, "alert-2", "alert-0", "alert-1") },
					func() error { return box.FinishNotices(ctx, append(first, alertOf("never put"))...) },
					func() error { return box.FinishNotices(ctx, first...) },
					func() error { return box.FinishNotices(ctx) },
					func() error { return claimsSome(ctx, box, 10, time.Hour, "alert-2") },
				)
			})
		},
	},
	{
		"a delayed notice is due again when its pause is over, and not when its claim is",
		"the pauses grow while a receiver is down",
		func(ctx context.Context, store session.Store) error {
			return withPut(ctx, store, 2, func(box session.Outbox) error {
				return inOrder(
					func() error { return delays(ctx, box, "alert-0", time.Hour, 0) },
					func() error { return delays(ctx, box, "alert-1", 0, time.Hour) },
					func() error { return claimsIDs(ctx, box, "alert-0") },
				)
			})
		},
	},
	{
		"a notice says how long its delays are in all, and counts neither its age nor its claims",
		"a clock that was wrong when it was put would have it dropped too early, or kept for years",
		func(ctx context.Context, store session.Store) error {
			return withDelayed(ctx, store, func(box session.Outbox) error {
				var waited time.Duration
				for range 3 {
					for range 2 { // the second claim follows one that ended by itself
						if err := claimsWaited(ctx, box, waited); err != nil {
							return err
						}
					}
					if err := waits(ctx, box, 36*time.Hour, time.Microsecond, 0); err != nil {
						return err
					}
					waited += 36*time.Hour + time.Microsecond
				}
				return claimsWaited(ctx, box, waited)
			})
		},
	},
	{
		"delays that are longer in all than a duration can say are as long as it can",
		"a sum that wraps around is of less than no time, and the notice is kept for ever",
		func(ctx context.Context, store session.Store) error {
			return withDelayed(ctx, store, func(box session.Outbox) error {
				const year = 365 * 24 * time.Hour
				if err := waits(ctx, box, 200*year, 200*year, 200*year, 0); err != nil {
					return err
				}
				return claimsWaited(ctx, box, time.Duration(math.MaxInt64).Truncate(time.Microsecond))
			})
		},
	},
	{
		"a claim or a pause of weeks lasts as long",
		"it looks like one that began before the database's clock was set back, which is over",
		func(ctx context.Context, store session.Store) error {
			return withOutbox(ctx, store, func(box session.Outbox) error {
				const weeks = 30 * 24 * time.Hour
				if err := box.PutNotices(ctx, alertOf("paused"), alertOf("claimed")); err != nil {
					return err
				}
				claimed, err := claimNotices(ctx, box, 2, weeks)
				if err != nil {
					return err
				}
				for _, n := range claimed {
					if n.ID == "paused" {
						err = box.DelayNotice(ctx, n, weeks)
					}
				}
				return inOrder(
					func() error { return err },
					func() error { return claimsIDs(ctx, box) },
					func() error { return claimsIDs(ctx, box) },
				)
			})
		},
	},
	{
		"a delay after another claim changes nothing",
		"a sender that was stopped for an hour would take the notice from the one that has it now",
		func(ctx context.Context, store session.Store) error {
			return withPut(ctx, store, 1, func(box session.Outbox) error {
				old, err := claimNotices(ctx, box, 1, 0)
				if err != nil {
					return err
				}
				return inOrder(
					func() error { return claimsIDs(ctx, box, "alert-0") },
					func() error { return box.DelayNotice(ctx, old[0], 0) },
					func() error { return claimsIDs(ctx, box) },
				)
			})
		},
	},
	{
		"to claim fewer than one or for less than no time, and a pause of less than none, are errors",
		"no notice, and one that is always due, look like an outbox that is empty or broken",
		func(ctx context.Context, store session.Store) error {
			return withPut(ctx, store, 1, func(box session.Outbox) error {
				_, none := box.ClaimNotices(ctx, 0, time.Hour)
				_, negative := box.ClaimNotices(ctx, 1, -1)
				before := box.DelayNotice(ctx, session.Notice{ID: "alert-0"}, -1)
				if none == nil || negative == nil || before == nil {
					return fmt.Errorf("of these errors one is nil: %w, %w, %w", none, negative, before)
				}
				return claimsIDs(ctx, box, "alert-0")
			})
		},
	},
	{
		"a call on the outbox with a done context changes nothing and returns the context's error",
		"a sender that stops must not take notices with it",
		func(ctx context.Context, store session.Store) error {
			return withPut(ctx, store, 1, func(box session.Outbox) error {
				return inOrder(
					func() error {
						return withDoneContexts(ctx, "PutNotices", func(ctx context.Context) error {
							return box.PutNotices(ctx, alertOf("too late"))
						})
					},
					func() error {
						return withDoneContexts(ctx, "FinishNotices", func(ctx context.Context) error {
							return box.FinishNotices(ctx, alertOf("alert-0"))
						})
					},
					func() error {
						return withDoneContexts(ctx, "DelayNotice", func(ctx context.Context) error {
							return box.DelayNotice(ctx, alertOf("alert-0"), time.Hour)
						})
					},
					func() error {
						return withDoneContexts(ctx, "ClaimNotices", func(ctx context.Context) error {
							_, err := box.ClaimNotices(ctx, 1, time.Hour)
							return err
						})
					},
					func() error { return claimsIDs(ctx, box, "alert-0") },
				)
			})
		},
	},
}
