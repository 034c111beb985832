package watchdog

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/unwrap"
)

// keptEnd is what the event says that the store kept as the window's end, which another process can have written first.
func (w *Watchdog) keptEnd(kept, event Event, own *record.Cancel) fold.Window {
	if !bytes.Equal(kept.Payload, event.Payload) {
		if found := w.known([]Event{kept}); found.Over() {
			return found
		}
	}
	return fold.Window{Stop: own}
}

// A transacted is what an exchange about the window came to: what the store knew, and the event that it kept under the
// ID of the one appended, nil if none was. Before are those that were appended before it. Unread is why it is only
// taken for kept.
type transacted struct {
	known  *fold.Window
	before []Event
	kept   *Event
	after  *windowExchange // what the store says after it; nil if that is known
	unread error
}

// knownAfter is what the store knows after the exchange.
func (w *Watchdog) knownAfter(t transacted) fold.Window {
	if t.after == nil {
		return *t.known
	}
	return w.known(append(t.after.selected, t.after.Kept...))
}

// transact asks the store what is known of the window, appends what is decided then, at most one event, and says what
// the store kept: in one transaction if the store can. If something is decided, the events before go before it, unless
// the store refuses them. What cannot be read is taken for unknown. It takes at most limit.
func (w *Watchdog) transact(
	ctx context.Context, limit time.Duration, before []Event, decide func(known *fold.Window) []Event,
) (transacted, error) {
	return exchangeWithin(ctx, &w.recorder, limit, func(ctx context.Context) (transacted, error) {
		t, err := w.transactWith(ctx, before, decide)
		if err != nil && len(before) > 0 && ctx.Err() == nil { // one of them may be refused for good
			t, err = w.transactWith(ctx, nil, decide)
		}
		return t, err
	})
}

func (w *Watchdog) transactWith(
	ctx context.Context, before []Event, decide func(known *fold.Window) []Event,
) (transacted, error) {
	if store, able := unwrap.To[TransactionalStore, EventStore](w.recorder.store); able {
		return w.transactOnce(ctx, store, before, decide)
	}
	return w.transactInSteps(ctx, before, decide)
}

func (w *Watchdog) transactOnce(
	ctx context.Context, store TransactionalStore, before []Event, decide func(known *fold.Window) []Event,
) (t transacted, err error) {
	x := &windowExchange{}
	x.prepare(w, w.onceIDs(w.startedAt), before, decide)
	err = store.Transact(ctx, &x.Exchange)
	if err != nil && ctx.Err() == nil { // an event of the run may be unreadable
		return w.appendUnread(ctx, err, before, decide)
	}
	if err != nil {
		return transacted{}, err
	}
	return x.transacted(), nil
}

// A windowExchange is an exchange about the window of one run, by itself or beside those of other runs.
type windowExchange struct {
	Exchange
	selected []Event
	known    fold.Window
	before   []Event
}

// prepare makes it the exchange of the run whose window has these onceIDs. The events before go before what is decided.
func (x *windowExchange) prepare(
	w *Watchdog, onceIDs []string, before []Event, decide func(known *fold.Window) []Event,
) {
	x.before = before
	x.Exchange = Exchange{Selection: w.selectionWith(w.startedAt, onceIDs), Decide: func(events []Event) []Event {
		x.selected, x.known = events, w.known(events)
		return after(before, decide(&x.known))
	}}
}

// after returns what is decided, behind the events before it, or nothing.
func after(before, decided []Event) []Event {
	if len(decided) == 0 || len(before) == 0 {
		return decided
	}
	return slices.Concat(before, decided)
}

// transacted is what an exchange that was carried out came to.
func (x *windowExchange) transacted() transacted {
	t := transacted{known: &x.known}
	if n := len(x.Kept); n > 0 {
		t.before, t.kept, t.after = x.before, &x.Kept[n-1], x
	}
	return t
}

// appendUnread appends what is decided of a window of which nothing can be read, because of that error.
func (w *Watchdog) appendUnread(
	ctx context.Context, unread error, before []Event, decide func(known *fold.Window) []Event,
) (t transacted, err error) {
	t.known, t.unread = &fold.Window{}, unread
	if events := after(before, decide(t.known)); len(events) > 0 {
		t.before, t.kept = before, &events[len(events)-1]
		err = w.recorder.store.Append(ctx, events...)
	}
	return t, err
}

func (w *Watchdog) transactInSteps(
	ctx context.Context, before []Event, decide func(known *fold.Window) []Event,
) (t transacted, err error) {
	known, _ := w.consult(ctx)
	t.known = &known
	events := after(before, decide(t.known))
	if len(events) == 0 {
		return t, nil
	}
	if err := w.recorder.store.Append(ctx, events...); err != nil {
		return transacted{}, err
	}
	t.before, t.kept = before, &events[len(events)-1]
	t.unread = w.readKept(ctx, &t)
	return t, nil
}

// readKept reads what the store has after an append.
func (w *Watchdog) readKept(ctx context.Context, t *transacted) error {
	stored, err := w.recorder.store.Read(ctx, AggregateType, w.id)
	if err != nil {
		return err
	}
	*t.known = w.known(stored)
	if i := slices.IndexFunc(stored, func(e Event) bool { return e.ID == t.kept.ID }); i >= 0 {
		t.kept = &stored[i]
	}
	return nil
}

// consult reads what was done to the window, by whatever process: ended it, or extended it.
func (w *Watchdog) consult(ctx context.Context) (fold.Window, error) {
	if store, able := unwrap.To[TransactionalStore, EventStore](w.recorder.store); able {
		events, err := store.Select(ctx, w.selection(w.startedAt))
		if err != nil {
			return fold.Window{}, fmt.Errorf("read events: %w", err)
		}
		return w.checkedKnown(events)
	}
	events, err := w.recorder.store.Read(ctx, AggregateType, w.id)
	if err != nil {
		return fold.Window{}, fmt.Errorf("read events: %w", err)
	}
	return w.checkedKnown(events)
}
