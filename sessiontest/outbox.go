package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var outboxRules = []rule{
	{"the end of a window is a notice, whoever stores it",
		"a stop that nobody is told of is found the next morning", given(alerts(0), func(e *env, box outbox) {
			s := attach(e, newSession("cancelled"))
			appends(e, ownEnd("stopped", false))
			appends(e, ownEnd("completed", true))
			cancels(e, s, session.Done)
			claimsIDs(box, "cancel of stopped", "cancel of completed", "cancel of cancelled")
			if _, ok := e.Store.(watchdog.TransactionalStore); ok { // most runs write their own so
				transacts(e, warning(homeRun), ownEnd(homeRun, false))
				transacts(e, ownEnd("decided", true))
				claimsIDs(box, "cancel of "+homeRun, "cancel of decided")
			}
			if _, ok := e.Store.(session.BatchCanceller); ok { // and a sweeper those of a dead host
				var all []row
				for i := range 3 {
					all = append(all, attach(e, newSession(fmt.Sprint("together-", i))))
				}
				cancelsAll(e, batchOf(all), session.Done, session.Done, session.Done)
				claimsIDs(box, "cancel of together-0", "cancel of together-1", "cancel of together-2")
			}
		})},
	{"an end that is stored already is not a notice again",
		"nobody wants to be called each time that a host starts again", given(alerts(0), func(e *env, box outbox) {
			s, own := attach(e, newSession(homeRun)), ownEnd(homeRun, true)
			appends(e, own, own)
			claimsIDs(box, own.ID)
			finishNotices(box, session.Notice{ID: own.ID})
			appends(e, own)
			transacts(e, own, own)
			cancels(e, s, session.EndStored)
			claimsIDs(box)
		})},
	{"no other event is a notice, and no end that was not stored",
		"who is told of every warning reads none, and who is told of a stop starts its run beside the one that runs",
		given(alerts(0), func(e *env, box outbox) {
			foreign, extend, second := ownEnd(homeRun, true), ownEnd(homeRun, false), warning(homeRun)
			foreign.ID, foreign.AggregateType = "foreign", "another"
			extend.ID, extend.Type = "extend", watchdog.EventExtend
			appends(e, warning(homeRun), foreign, extend)
			second.Type = ""
			require(e.Store.Append(e.Ctx, ownEnd(homeRun, false), second) != nil, "an invalid event was stored")
			s := attach(e, newSession("awake"))
			s.Attempt++
			cancels(e, s, session.Changed)
			claimsIDs(box)
		})},
	{"a notice says what the event is, and when it was put by the database's clock",
		"whoever gets it looks for the run, and drops what is too old", given(alerts(0), func(e *env, box outbox) {
			for i, runID := range oddIDs {
				end := ownEnd(runID, false)
				if end.ID = runID; len(runID) > watchdog.MaxEventID {
					end.ID = fmt.Sprint("end ", i)
				}
				putNow(box, session.Notice{
					ID: end.ID, AggregateType: end.AggregateType, AggregateID: runID, Type: end.Type, Tries: 1,
				}, func() { appends(e, end) })
			}
		})},
	{"a notice that is put is claimed as it was put, once, and none if one of several is invalid",
		"an alert is put by each sweeper that finds its reason, in each pass", given(alerts(0), func(e *env, box outbox) {
			err := box.PutNotices(e.Ctx, alertOf("another alert"), alertOf(""))
			require(errors.Is(err, watchdog.ErrInvalid), "the error is %w, want watchdog.ErrInvalid", err)
			first, other := alertOf("alert-1"), alertOf("alert-1")
			first.CreatedAt, first.Tries, first.Waited = noon, 7, time.Hour
			other.Type = "another"
			want := alertOf("alert-1")
			want.Tries = 1
			from := clockOf(e)
			puts(box, first, other)
			puts(box, other)
			got := claimsOne(box, time.Hour)
			within("CreatedAt", got.CreatedAt, from, clockOf(e))
			want.CreatedAt = got.CreatedAt
			require(got == want, "the notice is\n\t%+v, want\n\t%+v", got, want)
			puts(box, other)
			claimsIDs(box)
		})},
	{"notices are claimed in the order in which they were put, at most so many, and before what was claimed already",
		"who is told late is told of the oldest first, and a receiver that is down does not hold up word of a run",
		given(alerts(7), func(e *env, box outbox) {
			claimsSome(box, 3, 0, "alert-0", "alert-1", "alert-2")
			claimsSome(box, 3, time.Hour, "alert-3", "alert-4", "alert-5")
			claimsSome(box, 3, time.Hour, "alert-6", "alert-0", "alert-1")
			claimsSome(box, 3, time.Hour, "alert-2")
		})},
	{"a notice is due again when its claim is over, and says how often it was claimed",
		"whoever claimed it may have been killed", given(alerts(1), func(e *env, box outbox) {
			for tries := 1; tries <= 3; tries++ {
				got := claimNotices(box, 1, 0)
				require(len(got) == 1 && got[0].Tries == tries, "claimed are %+v, want one with %d tries", got, tries)
			}
		})},
	{"a finished notice does not come again, whoever claimed it last",
		"a slow receiver can answer when another has claimed the notice", given(alerts(3), func(e *env, box outbox) {
			first := claimNotices(box, 2, 0)
			claimsSome(box, 10, 0, "alert-2", "alert-0", "alert-1")
			finishNotices(box, append(first, alertOf("never put"))...)
			finishNotices(box, first...)
			finishNotices(box)
			claimsSome(box, 10, time.Hour, "alert-2")
		})},
	{"a delayed notice is due again when its pause is over and not when its claim is, unless it was claimed since",
		"the pauses grow while a receiver is down; and a sender that stood still would take the notice from who has it",
		given(alerts(2), func(e *env, box outbox) {
			delays := func(id string, lasts, pause time.Duration) session.Notice {
				claimed := claimNotices(box, 1, lasts)
				require(len(claimed) == 1 && claimed[0].ID == id, "claimed are %q, want %q", idsOf(claimed), id)
				delay(box, claimed[0], pause)
				return claimed[0]
			}
			old := delays("alert-0", time.Hour, 0)
			delays("alert-1", 0, time.Hour)
			claimsIDs(box, "alert-0")
			delay(box, old, 0)
			claimsIDs(box)
		})},
	{"a notice says how long its delays are in all, and counts neither its age nor its claims",
		"a wrong clock would have it dropped too early, or kept for years", given(alerts(0), func(e *env, box outbox) {
			puts(box, alertOf("delayed"))
			var waited time.Duration
			for range 3 {
				claimsWaited(box, waited)
				claimsWaited(box, waited) // this claim follows one that ended by itself
				n := claimsOne(box, time.Hour)
				for _, pause := range []time.Duration{36 * time.Hour, time.Microsecond, 0} {
					delay(box, n, pause)
					waited += pause
				}
			}
			claimsWaited(box, waited)
		})},
	{"delays that are longer in all than a duration can say are as long as it can",
		"a sum that wraps around is less than nothing: the notice is kept for ever",
		given(alerts(0), func(_ *env, box outbox) {
			const year = 365 * day
			puts(box, alertOf("delayed"))
			n := claimsOne(box, time.Hour)
			for _, pause := range []time.Duration{200 * year, 200 * year, 200 * year, 0} {
				delay(box, n, pause)
			}
			claimsWaited(box, time.Duration(math.MaxInt64).Truncate(time.Microsecond))
		})},
	{"a claim or a pause of weeks lasts as long",
		"it looks like one that began before the database's clock was set back, which is over",
		given(alerts(0), func(_ *env, box outbox) {
			const weeks = 30 * day
			puts(box, alertOf("paused"), alertOf("claimed"))
			for _, n := range claimNotices(box, 2, weeks) {
				if n.ID == "paused" {
					delay(box, n, weeks)
				}
			}
			claimsIDs(box)
			claimsIDs(box)
		})},
	{"to claim fewer than one or for less than no time, and a pause of less than none, are errors",
		"no notice, or one that is always due, looks like a broken outbox", given(alerts(1), func(e *env, box outbox) {
			_, none := box.ClaimNotices(e.Ctx, 0, time.Hour)
			_, negative := box.ClaimNotices(e.Ctx, 1, -1)
			before := box.DelayNotice(e.Ctx, session.Notice{ID: "alert-0"}, -1)
			require(none != nil && negative != nil && before != nil, "one is nil: %v, %v, %v", none, negative, before)
			claimsIDs(box, "alert-0")
		})},
	{"a call on the outbox with a done context changes nothing and returns the context's error",
		"a sender that stops must not take notices with it", given(alerts(1), func(e *env, box outbox) {
			n := alertOf("alert-0")
			withDoneContexts(e, calls{
				"PutNotices":    func(ctx context.Context) error { return box.PutNotices(ctx, alertOf("too late")) },
				"FinishNotices": func(ctx context.Context) error { return box.FinishNotices(ctx, n) },
				"DelayNotice":   func(ctx context.Context) error { return box.DelayNotice(ctx, n, time.Hour) },
				"ClaimNotices":  func(ctx context.Context) error { return errorOf(box.ClaimNotices(ctx, 1, time.Hour)) },
			})
			claimsIDs(box, n.ID)
		})},
	{"of eight that claim at once no two have the same notice, and no notice is left",
		"each host of a fleet has its sender", given(alerts(0), func(e *env, box outbox) {
			for round := range rounds {
				contract.Part(fmt.Sprint("round ", round), func() { claimsAtOnce(box, round) })
			}
		})},
	{"of eight that put the same notices at once each is there once",
		"the sweepers of a fleet find the reason of an alert in the same second", func(e *env) {
			box, all := openOutbox(e, 0), alertsOf("alert-", 10)
			contract.StepsAtOnce(8, func(caller int) {
				own := slices.Clone(all)
				if caller%2 == 1 {
					slices.Reverse(own)
				}
				puts(box, own...)
			})
			sameNotices(claimNotices(box, 100, time.Hour), all)
		}},
	{"of eight that claim, delay and finish at once no two have the same try of a notice, and each is finished",
		"a delay tells by the number of the try whether another has claimed the notice since", func(e *env) {
			box, all := openOutbox(e, 0), alertsOf("try-", 40)
			puts(box, all...)
			d := deliveries{box: box}
			d.left.Store(int64(len(all)))
			contract.StepsAtOnce(8, d.deliver)
			claimsIDs(box)
		}},
}

// claimsAtOnce puts notices, and claims them from eight goroutines at once until nothing is due.
func claimsAtOnce(box outbox, round int) {
	const each = 5
	all := alertsOf(fmt.Sprintf("alert-%d-", round), 4*each)
	puts(box, all...)
	var mu sync.Mutex
	var claimed []session.Notice
	claim := func() int {
		some := claimNotices(box, each, time.Hour)
		mu.Lock()
		defer mu.Unlock()
		claimed = append(claimed, some...)
		return len(some)
	}
	contract.StepsAtOnce(8, func(int) { claim() })
	for n := 1; n > 0 && len(claimed) <= len(all); { // what was locked by one that then took fewer
		n = claim()
	}
	sameNotices(claimed, all)
}

// Deliveries are what several senders do with one outbox.
type deliveries struct {
	box      outbox
	left     atomic.Int64 // notices that are not finished
	had      sync.Map     // a try of a notice, and who had it
	finished sync.Map
}

// deliver claims for no time, so that others have the same notices, until all are finished.
func (d *deliveries) deliver(caller int) {
	for n := caller; d.left.Load() > 0; n++ {
		for i, notice := range claimNotices(d.box, 3, 0) {
			try := fmt.Sprintf("try %d of notice %s", notice.Tries, notice.ID)
			other, taken := d.had.LoadOrStore(try, caller)
			require(!taken, "callers %v and %d have both %s", other, caller, try)
			switch (n + i) % 3 {
			case 0:
				delay(d.box, notice, 0)
			case 1:
				finishNotices(d.box, notice)
				if _, again := d.finished.LoadOrStore(notice.ID, true); !again {
					d.left.Add(-1)
				}
			}
		}
	}
}

// An outbox is that of the store. It must be on.
type outbox struct {
	*env
	session.Outbox
}

func alerts(n int) func(e *env) outbox {
	return func(e *env) outbox { return openOutbox(e, n) }
}

// openOutbox returns the store's outbox, with so many alerts, or skips the rule if there is none that is on.
func openOutbox(e *env, alerts int) outbox {
	box := outbox{e, contract.Optional[session.Outbox](e)}
	err := box.FinishNotices(e.Ctx)
	if errors.Is(err, session.ErrNoOutbox) {
		contract.NotCheckable("%w", err)
	}
	must(err, "finish no notices")
	for _, n := range alertsOf("alert-", alerts) {
		puts(box, n)
	}
	return box
}

func alertOf(id string) session.Notice {
	return session.Notice{ID: id, AggregateType: "sweeper", AggregateID: host, Type: "lease.lost"}
}

func alertsOf(prefix string, n int) (all []session.Notice) {
	for i := range n {
		all = append(all, alertOf(fmt.Sprint(prefix, i)))
	}
	return all
}

func puts(box outbox, notices ...session.Notice) {
	must(box.PutNotices(box.Ctx, notices...), "put %d notices", len(notices))
}

func claimNotices(box outbox, most int, lasts time.Duration) []session.Notice {
	claimed, err := box.ClaimNotices(box.Ctx, most, lasts)
	must(err, "claim at most %d notices", most)
	return claimed
}

// claimsOne claims the only notice that is due.
func claimsOne(box outbox, lasts time.Duration) session.Notice {
	claimed := claimNotices(box, 10, lasts)
	require(len(claimed) == 1, "claimed are %+v, want one", claimed)
	return claimed[0]
}

// claimsIDs claims all notices that are due for an hour, and checks their IDs.
func claimsIDs(box outbox, want ...string) { claimsSome(box, 100, time.Hour, want...) }

func claimsSome(box outbox, most int, lasts time.Duration, want ...string) {
	ids := idsOf(claimNotices(box, most, lasts))
	require(slices.Equal(ids, want), "claimed are %q, want %q", ids, want)
}

func idsOf(notices []session.Notice) (ids []string) {
	for _, n := range notices {
		ids = append(ids, n.ID)
	}
	return ids
}

// sameNotices checks that notices are as expected, in any order.
func sameNotices(got, want []session.Notice) {
	ids, wantIDs := slices.Sorted(slices.Values(idsOf(got))), slices.Sorted(slices.Values(idsOf(want)))
	require(slices.Equal(ids, wantIDs), "claimed are %q, want each of %q once", ids, wantIDs)
}

func delay(box outbox, n session.Notice, pause time.Duration) {
	must(box.DelayNotice(box.Ctx, n, pause), "delay %s by %v", n.ID, pause)
}

func finishNotices(box outbox, notices ...session.Notice) {
	must(box.FinishNotices(box.Ctx, notices...), "finish %d notices", len(notices))
}

// claimsWaited claims the only notice for no time, and checks how long it has waited.
func claimsWaited(box outbox, want time.Duration) {
	n := claimsOne(box, 0)
	require(n.Waited == want, "the notice has waited %v, want %v", n.Waited, want)
}

// putNow puts a notice, claims it, compares it with what it should be, and finishes it.
func putNow(box outbox, want session.Notice, putIt func()) {
	from := clockOf(box.env)
	putIt()
	to := clockOf(box.env)
	got := claimsOne(box, time.Hour)
	within("CreatedAt", got.CreatedAt, from, to)
	want.CreatedAt = got.CreatedAt
	require(got == want, "the notice is\n\t%+v, want\n\t%+v", got, want)
	finishNotices(box, got)
}

func transacts(e *env, events ...watchdog.Event) {
	must(contract.Optional[watchdog.TransactionalStore](e).Transact(e.Ctx, &watchdog.Exchange{
		Selection: watchdog.Selection{AggregateType: watchdog.AggregateType, AggregateID: events[0].AggregateID},
		Decide:    func([]watchdog.Event) []watchdog.Event { return events },
	}), "transact")
}
