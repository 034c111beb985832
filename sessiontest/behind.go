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

// covered is the instant up to which leases vouch in these rules for the rows that they do not name.
const covered = vouched + day

var behindRules = []rule{
	{
		"a renewal writes the rows that are behind, and the instant that counts for all others",
		"one row that cannot be written would hide every run of its process that hangs",
		func(ctx context.Context, store session.Store) error {
			l, err := begin(ctx, store, homeLease)
			if err != nil {
				return err
			}
			l.Beat, l.Vouched, l.Covered = 2, vouched, covered+1
			for i := range session.MaxBehind {
				l.Behind = append(l.Behind,
					session.RowBehind{RunID: fmt.Sprintf("rün <%d> \\\"'", i), Attempt: i + 1, Written: vouched + 1})
			}
			if err := renewed(ctx, store, l, func() error { return store.RenewLease(ctx, l) }); err != nil {
				return err
			}
			l.Beat, l.Vouched, l.Behind = 3, l.Covered, nil
			return renewed(ctx, store, l, func() error { return store.RenewLease(ctx, l) })
		},
	},
	{
		"the rows that are behind are written only with a higher beat, and their instant never decreases",
		"a renewal that comes late would hide that a row cannot be written, and its live run would be cancelled",
		func(ctx context.Context, store session.Store) error {
			l, err := beginAt(ctx, store, homeLease, vouched)
			if err != nil {
				return err
			}
			l.Beat, l.Covered = l.Beat+1, covered
			l.Behind = []session.RowBehind{{RunID: "run-1", Attempt: 1, Written: time.Hour}}
			if err := errors.Join(store.RenewLease(ctx, l), leaseIs(ctx, store, l)); err != nil {
				return err
			}
			for beat := l.Beat - 1; beat <= l.Beat; beat++ {
				late := l
				late.Beat, late.Covered = beat, covered+1
				late.Behind = []session.RowBehind{{RunID: "run-2", Attempt: 1, Written: time.Hour}}
				if err := errors.Join(store.RenewLease(ctx, late), leaseIs(ctx, store, l)); err != nil {
					return fmt.Errorf("a renewal with the beat %d after %d: %w", beat, l.Beat, err)
				}
			}
			l.Beat++
			l.Behind = []session.RowBehind{{RunID: "run-1", Attempt: 2, Written: time.Minute}}
			lower := l
			lower.Covered--
			return errors.Join(store.RenewLease(ctx, lower), leaseIs(ctx, store, l))
		},
	},
	{
		"a session that its lease names is silent up to its own instant, and every other up to that of the lease",
		"its run has woken up, and its process cannot write that",
		func(ctx context.Context, store session.Store) error {
			fresh := []session.Freshness{
				{Activity: 1, Quiet: true}, {Activity: time.Second, Quiet: true}, {Activity: 1, Quiet: true},
				{Activity: time.Hour, Quiet: true}, {Activity: 1}, {Activity: 1, Quiet: true},
			}
			silences := []time.Duration{covered - 1, 4 * time.Second, covered - 1, 0, 0, covered - 1}
			rows, err := behind(ctx, store, fresh, nil,
				session.RowBehind{RunID: "run-1", Attempt: 1, Written: 5 * time.Second},
				session.RowBehind{RunID: "run-2", Attempt: 2, Written: 5 * time.Second},
				session.RowBehind{RunID: "run-3", Attempt: 1, Written: time.Minute},
				session.RowBehind{RunID: "run-4", Attempt: 1, Written: time.Minute},
				session.RowBehind{RunID: "run-5", Attempt: 1, Written: covered + 1})
			for i, s := range rows {
				s.Silence, s.Behind = silences[i], slices.Contains([]int{1, 3, 5}, i)
				err = errors.Join(err, looksLike(ctx, store, s))
			}
			return err
		},
	},
	{
		"a session that its lease names is stalled by its own instant, and hides no other",
		"the runs of its process that hang are found as if its row could be written",
		func(ctx context.Context, store session.Store) error {
			const own = time.Minute
			quiet := session.Freshness{Activity: time.Hour, Quiet: true}
			named := func(runID string, silence time.Duration) session.RowBehind {
				return session.RowBehind{RunID: runID, Attempt: 1, Written: quiet.Activity + silence}
			}
			fresh := slices.Repeat([]session.Freshness{quiet}, 8)
			for _, i := range []int{2, 3, 6, 7} { // behind those that are not stalled
				fresh[i].Activity += time.Duration(i) * time.Second
			}
			_, err := behind(ctx, store, fresh,
				map[string]time.Duration{"run-4": own, "run-5": own, "run-6": own, "run-7": own},
				named("run-0", 0), named("run-1", threshold/2), named("run-2", 2*threshold),
				named("run-4", 0), named("run-5", own/2), named("run-6", 2*own))
			if err != nil {
				return err
			}
			return contract.Each([]int{1, 2, 3, 10}, func(limit int) error {
				return pagesThrough(ctx, store, limit, []string{"run-2", "run-3", "run-6", "run-7"})
			})
		},
	},
	{
		"a session that its lease names since it was found is neither claimed nor warned nor cancelled",
		"the lease says meanwhile that the run has woken up, and the row cannot say it",
		func(ctx context.Context, store session.Store) error {
			l, s, err := vouchedFor(ctx, store, session.Freshness{Activity: time.Hour, Quiet: true})
			if err != nil {
				return err
			}
			l.Beat, l.Covered = l.Beat+1, l.Vouched+time.Hour
			l.Behind = []session.RowBehind{{RunID: s.RunID, Attempt: s.Attempt, Written: l.Vouched - 1}}
			if err := errors.Join(store.RenewLease(ctx, l), claims(ctx, store, s, by, session.Changed),
				warns(ctx, store, s, session.Changed), cancels(ctx, store, s, session.Changed),
				recorded(ctx, store, s.RunID)); err != nil {
				return err
			}
			l.Beat, l.Behind[0].Written = l.Beat+1, l.Vouched
			return errors.Join(store.RenewLease(ctx, l), cancels(ctx, store, s, session.Done))
		},
	},
}

// behind writes sessions of a lease, run-0 the first, some with a threshold of their own, and renews the lease, which
// names rows as behind. It returns the sessions as they were before.
func behind(
	ctx context.Context, store session.Store, fresh []session.Freshness, own map[string]time.Duration,
	named ...session.RowBehind,
) (sessions []session.Session, err error) {
	l, err := beginAt(ctx, store, homeLease, time.Hour)
	if err != nil {
		return nil, err
	}
	var rows []session.Session
	for i := range fresh {
		s := withThreshold(silentSession(fmt.Sprint("run-", i), noon, 0), own[fmt.Sprint("run-", i)])
		fresh[i].RunID, fresh[i].Attempt = s.RunID, s.Attempt
		rows = append(rows, s)
	}
	if err := put(ctx, store, rows...); err != nil {
		return nil, err
	}
	if err := freshens(ctx, store, l.ID, fresh...); err != nil {
		return nil, err
	}
	for _, s := range rows {
		if s, err = look(ctx, store, s.RunID); err != nil {
			return nil, err
		}
		sessions = append(sessions, s)
	}
	l.Beat, l.Clock, l.Covered, l.Behind = l.Beat+1, covered+lag, covered, named
	return sessions, store.RenewLease(ctx, l)
}
