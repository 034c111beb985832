package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// withOutbox checks an empty outbox, if the store has one that is on.
func withOutbox(ctx context.Context, store session.Store, check func(session.Outbox) error) error {
	box, ok := store.(session.Outbox)
	if !ok {
		return fmt.Errorf("%w: the store is not a session.Outbox", errNotCheckable)
	}
	err := box.FinishNotices(ctx)
	if errors.Is(err, session.ErrNoOutbox) {
		return fmt.Errorf("%w: %w", errNotCheckable, err)
	}
	if err != nil {
		return err
	}
	return check(box)
}

// withPut checks an outbox of so many alerts.
func withPut(ctx context.Context, store session.Store, n int, check func(session.Outbox) error) error {
	return withOutbox(ctx, store, func(box session.Outbox) error {
		for i := range n {
			if err := box.PutNotices(ctx, alertOf(fmt.Sprint("alert-", i))); err != nil {
				return err
			}
		}
		return check(box)
	})
}

func alertOf(id string) session.Notice {
	return session.Notice{ID: id, AggregateType: "sweeper", AggregateID: host, Type: "lease.lost"}
}

func claimNotices(
	ctx context.Context, box session.Outbox, most int, lasts time.Duration,
) ([]session.Notice, error) {
	claimed, err := box.ClaimNotices(ctx, most, lasts)
	if err != nil {
		return nil, fmt.Errorf("claim at most %d notices: %w", most, err)
	}
	return claimed, nil
}

// claimsIDs claims all notices that are due for an hour, and checks their IDs.
func claimsIDs(ctx context.Context, box session.Outbox, want ...string) error {
	return claimsSome(ctx, box, 100, time.Hour, want...)
}

func claimsSome(ctx context.Context, box session.Outbox, most int, lasts time.Duration, want ...string) error {
	claimed, err := claimNotices(ctx, box, most, lasts)
	if ids := idsOf(claimed); err == nil && !slices.Equal(ids, want) {
		err = fmt.Errorf("claimed are %q, want %q", ids, want)
	}
	return err
}

func idsOf(notices []session.Notice) (ids []string) {
	for _, n := range notices {
		ids = append(ids, n.ID)
	}
	return ids
}

func sorted(notices []session.Notice) []string { return slices.Sorted(slices.Values(idsOf(notices))) }

// delays claims the next notice, and delays it.
func delays(ctx context.Context, box session.Outbox, id string, lasts, pause time.Duration) error {
	claimed, err := claimNotices(ctx, box, 1, lasts)
	switch {
	case err != nil:
		return err
	case len(claimed) != 1 || claimed[0].ID != id:
		return fmt.Errorf("claimed are %q, want %q", idsOf(claimed), id)
	}
	return box.DelayNotice(ctx, claimed[0], pause)
}

// withDelayed checks an outbox of one alert that has a name of its own.
func withDelayed(ctx context.Context, store session.Store, check func(session.Outbox) error) error {
	return withOutbox(ctx, store, func(box session.Outbox) error {
		if err := box.PutNotices(ctx, alertOf("delayed")); err != nil {
			return err
		}
		return check(box)
	})
}

// claimsWaited claims the next notice for no time, and checks how long it has waited.
func claimsWaited(ctx context.Context, box session.Outbox, want time.Duration) error {
	claimed, err := claimNotices(ctx, box, 2, 0)
	if err == nil && (len(claimed) != 1 || claimed[0].Waited != want) {
		err = fmt.Errorf("claimed are %+v, want one that has waited %v", claimed, want)
	}
	return err
}

// waits claims the next notice, and delays it by each of the pauses at once.
func waits(ctx context.Context, box session.Outbox, pauses ...time.Duration) error {
	claimed, err := claimNotices(ctx, box, 2, time.Hour)
	if err == nil && len(claimed) != 1 {
		err = fmt.Errorf("claimed are %q, want one", idsOf(claimed))
	}
	for _, pause := range pauses {
		if err == nil {
			err = box.DelayNotice(ctx, claimed[0], pause)
		}
	}
	return err
}

// putNow puts a notice, claims it, compares it with what it should be, and finishes it.
func putNow(
	ctx context.Context, store session.Store, box session.Outbox, putIt func() error, want session.Notice,
) error {
	from, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	if err := putIt(); err != nil {
		return err
	}
	to, err := clockOf(ctx, store)
	if err != nil {
		return err
	}
	got, err := claimNotices(ctx, box, 10, time.Hour)
	if err != nil {
		return err
	}
	if len(got) != 1 {
		return fmt.Errorf("claimed are %+v, want one", got)
	}
	want.CreatedAt = got[0].CreatedAt
	if got[0] != want {
		return fmt.Errorf("the notice is\n\t%+v, want\n\t%+v", got[0], want)
	}
	return errors.Join(within("CreatedAt", want.CreatedAt, from, to), box.FinishNotices(ctx, got...))
}

// transacts stores events in a transaction.
func transacts(ctx context.Context, store session.Store, events ...watchdog.Event) error {
	transactional, ok := store.(watchdog.TransactionalStore)
	if !ok {
		return fmt.Errorf("%w: the store is not a watchdog.TransactionalStore", errNotCheckable)
	}
	return transactional.Transact(ctx, &watchdog.Exchange{
		Selection: watchdog.Selection{AggregateType: watchdog.AggregateType, AggregateID: events[0].AggregateID},
		Decide:    func([]watchdog.Event) []watchdog.Event { return events },
	})
}
