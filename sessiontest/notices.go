package sessiontest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

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
