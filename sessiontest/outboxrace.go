package sessiontest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var outboxRaceRules = []rule{
	{
		"of eight that claim at once no two have the same notice, and no notice is left",
		"each host of a fleet has its sender",
		func(ctx context.Context, store session.Store) error {
			return withOutbox(ctx, store, func(box session.Outbox) error {
				for round := range rounds {
					if err := claimsAtOnce(ctx, box, round); err != nil {
						return fmt.Errorf("round %d: %w", round, err)
					}
				}
				return nil
			})
		},
	},
	{
		"of eight that put the same notices at once each is there once",
		"the sweepers of a fleet find the reason of an alert in the same second",
		func(ctx context.Context, store session.Store) error {
			return withOutbox(ctx, store, func(box session.Outbox) error {
				var all []session.Notice
				for i := range 10 {
					all = append(all, alertOf(fmt.Sprint("alert-", i)))
				}
				err := contract.AtOnce(8, func(caller int) error {
					own := slices.Clone(all)
					if caller%2 == 1 {
						slices.Reverse(own)
					}
					return box.PutNotices(ctx, own...)
				})
				if err != nil {
					return err
				}
				got, err := claimNotices(ctx, box, 100, time.Hour)
				if ids := sorted(got); err == nil && !slices.Equal(ids, sorted(all)) {
					err = fmt.Errorf("claimed are %q", ids)
				}
				return err
			})
		},
	},
	{
		"of eight that claim, delay and finish at once no two have the same try of a notice, and each is finished",
		"a delay tells by the number of the try whether another has claimed the notice since",
		func(ctx context.Context, store session.Store) error {
			return withOutbox(ctx, store, func(box session.Outbox) error {
				var all []session.Notice
				for i := range 40 {
					all = append(all, alertOf(fmt.Sprint("try-", i)))
				}
				if err := box.PutNotices(ctx, all...); err != nil {
					return err
				}
				d := deliveries{box: box, had: map[string]int{}, finished: map[string]bool{}, want: len(all)}
				if err := contract.AtOnce(8, func(caller int) error { return d.deliver(ctx, caller) }); err != nil {
					return err
				}
				return claimsIDs(ctx, box)
			})
		},
	},
}

// claimsAtOnce puts notices, and claims them from eight goroutines at once until nothing is due.
func claimsAtOnce(ctx context.Context, box session.Outbox, round int) error {
	const each = 5
	var all []session.Notice
	for i := range 4 * each {
		all = append(all, alertOf(fmt.Sprintf("alert-%d-%d", round, i)))
	}
	if err := box.PutNotices(ctx, all...); err != nil {
		return err
	}
	var mu sync.Mutex
	var claimed []session.Notice
	claim := func() (n int, err error) {
		some, err := claimNotices(ctx, box, each, time.Hour)
		mu.Lock()
		defer mu.Unlock()
		claimed = append(claimed, some...)
		return len(some), err
	}
	err := contract.AtOnce(8, func(int) error { _, err := claim(); return err })
	for n := 1; n > 0 && err == nil && len(claimed) <= len(all); { // what was locked by one that then took fewer
		n, err = claim()
	}
	if ids := sorted(claimed); err == nil && !slices.Equal(ids, sorted(all)) {
		err = fmt.Errorf("claimed are %q, want each of %d notices once", ids, len(all))
	}
	return err
}

// Deliveries are what several senders do with one outbox.
type deliveries struct {
	box  session.Outbox
	want int // notices that were put

	mu       sync.Mutex
	had      map[string]int // a try of a notice, and who had it
	finished map[string]bool
}

// deliver claims for no time, so that others have the same notices, until all are finished.
func (d *deliveries) deliver(ctx context.Context, caller int) error {
	for n := caller; !d.over(); n++ {
		claimed, err := claimNotices(ctx, d.box, 3, 0)
		if err != nil {
			return err
		}
		for i, notice := range claimed {
			if err := d.note(notice, caller); err != nil {
				return err
			}
			switch (n + i) % 3 {
			case 0:
				err = d.box.DelayNotice(ctx, notice, 0)
			case 1:
				err = d.finish(ctx, notice)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *deliveries) note(n session.Notice, caller int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	try := fmt.Sprintf("try %d of notice %s", n.Tries, n.ID)
	if other, taken := d.had[try]; taken {
		return fmt.Errorf("callers %d and %d have both %s", other, caller, try)
	}
	d.had[try] = caller
	return nil
}

func (d *deliveries) finish(ctx context.Context, n session.Notice) error {
	if err := d.box.FinishNotices(ctx, n); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.finished[n.ID] = true
	return nil
}

func (d *deliveries) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.finished) == d.want
}
