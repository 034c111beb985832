package watchdog

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
)

// keptEnd is what the event says that the store kept as the window's end, which another process can have written first.
func (r *run) keptEnd(kept, event Event, own *record.Cancel) fold.Window {
	if !bytes.Equal(kept.Payload, event.Payload) {
		if found := r.known([]Event{kept}); found.Over() {
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
func (r *run) knownAfter(t transacted) fold.Window {
	if t.after == nil {
		return *t.known
	}
	return r.knownFrom(t.after.base, t.after.selected, t.after.Kept...)
}

// transact asks the store what is known of the window, appends what is decided then, at most one event, and says what
// the store kept: in one transaction if the store can. If something is decided, the events before go before it, unless
// the store refuses them. What cannot be read is taken for unknown. It takes at most limit.
func (r *run) transact(
	ctx context.Context, limit time.Duration, before []Event, decide func(known *fold.Window) []Event,
) (transacted, error) {
	r.name()
	return exchangeWithin(ctx, r, limit, func(ctx context.Context) (transacted, error) {
		t, err := r.transactWith(ctx, before, decide)
		if err != nil && len(before) > 0 && ctx.Err() == nil { // one of them may be refused for good
			t, err = r.transactWith(ctx, nil, decide)
		}
		return t, err
	})
}

func (r *run) transactWith(
	ctx context.Context, before []Event, decide func(known *fold.Window) []Event,
) (transacted, error) {
	if store, able := r.tree.transactional(); able {
		return r.transactOnce(ctx, store, before, decide)
	}
	return r.transactInSteps(ctx, before, decide)
}

func (r *run) transactOnce(
	ctx context.Context, store TransactionalStore, before []Event, decide func(known *fold.Window) []Event,
) (t transacted, err error) {
	x := &windowExchange{}
	x.prepare(r, r.node.Once(r.node.StartedAt), before, decide)
	err = store.Transact(ctx, &x.Exchange)
	if err != nil && ctx.Err() == nil { // an event of the run may be unreadable
		return r.appendUnread(ctx, err, before, decide)
	}
	if err != nil {
		return transacted{}, err
	}
	return x.transacted(), nil
}

// A windowExchange is an exchange about the window of one run, by itself or beside those of other runs.
type windowExchange struct {
	Exchange
	base     *fold.Base // which the selection goes on from, nil for none
	selected []Event
	known    fold.Window
	before   []Event
}

// prepare makes it the exchange of the run whose window has these onceIDs. The events before go before what is decided.
func (x *windowExchange) prepare(
	r *run, onceIDs []string, before []Event, decide func(known *fold.Window) []Event,
) {
	x.before, x.base = before, r.base()
	selection := r.selectionFrom(x.base, r.node.StartedAt, onceIDs)
	x.Exchange = Exchange{Selection: selection, Decide: func(events []Event) []Event {
		x.selected, x.known = events, r.knownFrom(x.base, events)
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
func (r *run) appendUnread(
	ctx context.Context, unread error, before []Event, decide func(known *fold.Window) []Event,
) (t transacted, err error) {
	t.known, t.unread = &fold.Window{}, unread
	if events := after(before, decide(t.known)); len(events) > 0 {
		t.before, t.kept = before, &events[len(events)-1]
		err = r.tree.store.Append(ctx, events...)
	}
	return t, err
}

func (r *run) transactInSteps(
	ctx context.Context, before []Event, decide func(known *fold.Window) []Event,
) (t transacted, err error) {
	known, _ := r.consult(ctx)
	t.known = &known
	events := after(before, decide(t.known))
	if len(events) == 0 {
		return t, nil
	}
	if err := r.tree.store.Append(ctx, events...); err != nil {
		return transacted{}, err
	}
	t.before, t.kept = before, &events[len(events)-1]
	t.unread = r.readKept(ctx, &t)
	return t, nil
}

// readKept reads what the store has after an append.
func (r *run) readKept(ctx context.Context, t *transacted) error {
	stored, err := r.tree.store.Read(ctx, AggregateType, r.node.Run)
	if err != nil {
		return err
	}
	*t.known = r.known(stored)
	if i := slices.IndexFunc(stored, func(e Event) bool { return e.ID == t.kept.ID }); i >= 0 {
		t.kept = &stored[i]
	}
	return nil
}

// consult reads what was done to the window, by whatever process: ended it, or extended it.
func (r *run) consult(ctx context.Context) (fold.Window, error) {
	r.name()
	if store, able := r.tree.transactional(); able {
		return r.consultPart(ctx, store)
	}
	events, err := r.tree.store.Read(ctx, AggregateType, r.node.Run)
	if err != nil {
		return fold.Window{}, fmt.Errorf("read events: %w", err)
	}
	return r.checkedKnown(nil, events)
}

// consultPart reads what this process has not read yet.
func (r *run) consultPart(ctx context.Context, store TransactionalStore) (fold.Window, error) {
	base, err := r.newestBase(ctx, store)
	if err != nil {
		return fold.Window{}, fmt.Errorf("read events: %w", err)
	}
	startedAt := r.node.StartedAt
	s := r.selectionFrom(base, startedAt, r.node.Once(startedAt))
	events, err := store.Select(ctx, s)
	if err == nil && base == nil && len(events) >= checkpointAfter && !r.node.Begins {
		s.LatestOf = endKinds // once, for the base
		events, err = store.Select(ctx, s)
	}
	if err != nil {
		return fold.Window{}, fmt.Errorf("read events: %w", err)
	}
	known, err := r.checkedKnown(base, events)
	if err == nil {
		r.foldIn(base, startedAt, startedAt, events)
	}
	return known, err
}

// staleBase is how old what a process knows may be before it asks for a checkpoint of another one.
const staleBase = 2 * time.Hour

// newestBase is what this process knows or, if that is old, what another one may have written since.
func (r *run) newestBase(ctx context.Context, store TransactionalStore) (*fold.Base, error) {
	base, until := r.base(), r.node.StartedAt
	if base != nil {
		until = base.Until
	}
	if r.node.Begins || clocks.Now(r.tree.clock.other).Sub(until) <= staleBase {
		return base, nil
	}
	events, err := store.Select(ctx, r.lastCheckpoint())
	if err != nil {
		return nil, err
	}
	newer, err := r.readCheckpoint(ctx, store, events, r.node.StartedAt)
	if err != nil || newer == nil || newer.Merges() || !newer.Until.After(until) {
		return base, err
	}
	r.learn(newer, 0)
	return newer, nil
}

// foldIn has the process not read the events of the window again, if they are many, which were read from the base on,
// or those of the windows from the one that began first. A window that begins with its watchdog has none that others
// would add to.
func (r *run) foldIn(base *fold.Base, first, window time.Time, events []Event) {
	if r.node.Begins {
		return
	}
	if base == nil {
		base = r.newBase(first)
	}
	read := toFold(events)
	if news := base.News(read); news >= checkpointAfter {
		r.learn(base.With(read, window, clocks.Now(r.tree.clock.other)), news)
	}
}
