package watchdog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/record"
)

// started returns the run with the start that the store has of it, if the host passes none. All that it asks the store
// and the keeper for takes one record timeout.
func (cfg *Config) started(ctx context.Context, named Run, now time.Time) (Run, error) {
	if !named.StartedAt.IsZero() {
		return named, nil
	}
	named.StartedAt = now
	if err := cfg.check(ctx, named, now); err != nil || cfg.Disabled {
		return named, err
	}
	place := cfg.place()
	b := beginning{
		store: place.Store, keeper: cfg.Keeper, run: named, now: now,
		id: record.StartID(named.ID, named.Parent),
	}
	place.Instant = place.Instant && b.keeper == nil
	var err error
	if named.StartedAt, err = journal.Ask(ctx, &place, b.find); err != nil {
		return named, fmt.Errorf("look up when run %s began: %w", named.ID, err)
	}
	return named, nil
}

// A beginning is the event that tells when a run began. Its ID is the same whoever writes it, so that the first one
// counts. It may be a checkpoint, as versions before wrote it.
type beginning struct {
	store  journal.Store
	keeper Keeper
	run    Run
	now    time.Time
	id     string
}

// find returns a start from which the run's window is found. Where none is stored it stores that of the last window
// which other events tell of, as of a run whose host passed its start before, that of its keeper, or now.
func (b *beginning) find(ctx context.Context) (time.Time, error) {
	start, events, err := b.read(ctx)
	if err != nil || !start.IsZero() {
		return start, err
	}
	if b.store.Transacts() { // only a few were asked for
		if events, err = b.store.ReadRun(ctx, b.run.ID); err != nil {
			return start, err
		}
	}
	if start, err = b.first(ctx, events); err != nil {
		return start, err
	}
	began := event.Event{
		ID: b.id, AggregateType: event.AggregateType, AggregateID: b.run.ID, Type: event.Start,
		Payload: record.JSON(record.Start{
			SessionStartedAt: event.Stamp(event.Truncate(start)), StoredAt: event.Stamp(event.Truncate(b.now)),
			Parent: b.run.Parent,
		}),
		Timestamp: event.Truncate(b.now),
	}
	if err := b.store.Append(ctx, began); err != nil {
		return start, fmt.Errorf("append that it begins: %w", err)
	}
	if start, _, err = b.read(ctx); err == nil && start.IsZero() {
		err = errors.New("the store took the event that says so, and does not have it")
	}
	return start, err
}

// first is the start that is to be stored of a run with these events. One in the future does not count: it has to be
// resumed after.
func (b *beginning) first(ctx context.Context, events []event.Event) (start time.Time, err error) {
	h := fold.Of(fold.WindowID{Parent: b.run.Parent}, events)
	if e := h.Unreadable(time.Time{}); e != nil {
		return start, fmt.Errorf("%w %w; correct or delete that event to go on with the run", ErrUnreadableEvent, e)
	}
	if last := h.Last(); last != nil && last.StartedAt.Sub(b.now) <= StartSkew {
		return last.StartedAt, nil
	}
	if b.keeper != nil {
		if start, err = b.keeper.Start(ctx, b.run.ID); err != nil {
			return start, fmt.Errorf("ask its keeper: %w", err)
		}
	}
	if start.IsZero() || start.Sub(b.now) > StartSkew {
		start = b.now
	}
	return start, nil
}

// read returns the start that is stored, zero if none is, and what was read to find it. The last resume is one as well:
// who goes on from there reads no window before it. But not one in the future, which has to be resumed after.
func (b *beginning) read(ctx context.Context) (start time.Time, events []event.Event, err error) {
	if b.store.Transacts() {
		events, err = b.store.Transactional.Select(ctx, event.Selection{
			AggregateType: event.AggregateType, AggregateID: b.run.ID, IDs: []string{b.id},
			Since: journal.NewestTime, LatestOf: []string{event.Resume},
		})
	} else {
		events, err = b.store.ReadRun(ctx, b.run.ID)
	}
	for i := range events {
		e := &events[i]
		var p record.Window
		switch flaw := json.Unmarshal(e.Payload, &p); {
		case e.ID == b.id && (flaw != nil || time.Time(p.SessionStartedAt).IsZero()):
			flaw = cmp.Or(flaw, errors.New("it has no session_started_at"))
			return start, events, fmt.Errorf("%w %w", ErrUnreadableEvent, &fold.UnreadableError{Event: *e, Err: flaw})
		case e.ID == b.id && start.IsZero(), e.Type == event.Resume && flaw == nil && p.Parent == b.run.Parent &&
			time.Time(p.SessionStartedAt).Sub(b.now) <= StartSkew:
			start = time.Time(p.SessionStartedAt)
		}
	}
	return start, events, err
}
