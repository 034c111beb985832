package journal

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
)

// A Result is what an exchange about the window came to: what the store knew, and the event that it kept under the ID
// of the one appended, nil if none was. Before are those that were appended before it. Unread is why it is only taken
// for kept.
type Result struct {
	Known  *fold.Window
	Before []event.Event
	Kept   *event.Event
	Unread error
	after  *WindowExchange // what the store says after it; nil if that is known
}

// After is what the store knows after the exchange.
func (j *Journal) After(r Result) fold.Window {
	if r.after == nil {
		return *r.Known
	}
	return j.fromBase(r.after.base, r.after.selected, r.after.Kept...)
}

// End is what the event says that the store kept as the window's end, which another process can have written first.
func (j *Journal) End(r Result, e *event.Event, own *record.Cancel) fold.Window {
	if !bytes.Equal(r.Kept.Payload, e.Payload) {
		if found := j.fromBase(nil, []event.Event{*r.Kept}); found.Over() {
			return found
		}
	}
	return fold.Window{Stop: own}
}

// EndAfter is what the store knows after an exchange that gave the window an end, or why that cannot be read.
func (j *Journal) EndAfter(r Result) (known fold.Window, err error) {
	if r.Unread != nil {
		return known, fmt.Errorf("read what was kept: %w", r.Unread)
	}
	if known = j.After(r); !known.Over() {
		_, err = j.checked(j.history(nil, []event.Event{*r.Kept}))
	}
	return known, err
}

// A Decide returns the events to append, at most one, in view of what is known of the window.
type Decide func(known *fold.Window) []event.Event

// Transact asks the store what is known of the window, appends what is decided then, and says what the store kept: in
// one transaction if the store can. If something is decided, the events before go before it, unless the store refuses
// them. What cannot be read is taken for unknown. It takes at most limit.
func (j *Journal) Transact(
	ctx context.Context, limit time.Duration, before []event.Event, decide Decide,
) (Result, error) {
	return Within(ctx, j, limit, func(ctx context.Context) (Result, error) {
		r, err := j.transact(ctx, before, decide)
		if err != nil && len(before) > 0 && ctx.Err() == nil { // one of them may be refused for good
			r, err = j.transact(ctx, nil, decide)
		}
		return r, err
	})
}

func (j *Journal) transact(ctx context.Context, before []event.Event, decide Decide) (Result, error) {
	store := &j.place.Store
	if !store.Transacts() {
		return j.transactInSteps(ctx, before, decide)
	}
	x := j.Prepare(before, decide)
	err := store.Transactional.Transact(ctx, &x.Exchange)
	if err != nil && ctx.Err() == nil { // an event of the run may be unreadable
		return j.appendUnread(ctx, err, before, decide)
	}
	if err != nil {
		return Result{}, err
	}
	return x.Result(), nil
}

// A WindowExchange is an exchange about the window of one run, by itself or beside those of other runs.
type WindowExchange struct {
	event.Exchange
	base     *fold.Base // which the selection goes on from, nil for none
	selected []event.Event
	known    fold.Window
	before   []event.Event
}

// Prepare makes an exchange. The events before go before what is decided.
func (j *Journal) Prepare(before []event.Event, decide Decide) *WindowExchange {
	x := &WindowExchange{before: before, base: j.base()}
	x.Selection = j.selection(x.base, j.name.StartedAt, j.once())
	x.Decide = func(events []event.Event) []event.Event {
		x.selected, x.known = events, j.fromBase(x.base, events)
		return behind(before, decide(&x.known))
	}
	return x
}

// behind returns what is decided, behind the events before it, or nothing.
func behind(before, decided []event.Event) []event.Event {
	if len(decided) == 0 || len(before) == 0 {
		return decided
	}
	return slices.Concat(before, decided)
}

// Result is what an exchange that was carried out came to.
func (x *WindowExchange) Result() Result {
	r := Result{Known: &x.known}
	if n := len(x.Kept); n > 0 {
		r.Before, r.Kept, r.after = x.before, &x.Kept[n-1], x
	}
	return r
}

// appendUnread appends what is decided of a window of which nothing can be read, because of that error.
func (j *Journal) appendUnread(
	ctx context.Context, unread error, before []event.Event, decide Decide,
) (r Result, err error) {
	r.Known, r.Unread = &fold.Window{}, unread
	if events := behind(before, decide(r.Known)); len(events) > 0 {
		r.Before, r.Kept = before, &events[len(events)-1]
		err = j.place.Store.Append(ctx, events...)
	}
	return r, err
}

func (j *Journal) transactInSteps(ctx context.Context, before []event.Event, decide Decide) (r Result, err error) {
	known, _ := j.consult(ctx)
	r.Known = &known
	events := behind(before, decide(r.Known))
	if len(events) == 0 {
		return r, nil
	}
	if err := j.place.Store.Append(ctx, events...); err != nil {
		return Result{}, err
	}
	r.Before, r.Kept = before, &events[len(events)-1]
	_, r.Unread = Here(func() (Nothing, error) { return Nothing{}, j.readKept(ctx, &r) })
	return r, nil
}

// readKept reads what the store has after an append.
func (j *Journal) readKept(ctx context.Context, r *Result) error {
	stored, err := j.place.Store.ReadRun(ctx, j.name.Run)
	if err != nil {
		return err
	}
	*r.Known = j.fromBase(nil, stored)
	if i := slices.IndexFunc(stored, func(e event.Event) bool { return e.ID == r.Kept.ID }); i >= 0 {
		r.Kept = &stored[i]
	}
	return nil
}

// Append stores events, all or none, within the time-out.
func (j *Journal) Append(ctx context.Context, events ...event.Event) error {
	_, err := Within(ctx, j, j.place.Timeout, func(ctx context.Context) (Nothing, error) {
		err := j.place.Store.Append(ctx, events...)
		if err == nil {
			j.Appended(len(events))
			j.ReadAlong(ctx)
		}
		return Nothing{}, err
	})
	return err
}

// Consult reads what was done to the window, by whatever process: ended it, or extended it. It takes at most the
// time-out.
func (j *Journal) Consult(ctx context.Context) (fold.Window, error) {
	return Within(ctx, j, j.place.Timeout, j.consult)
}

func (j *Journal) consult(ctx context.Context) (fold.Window, error) {
	if j.place.Store.Transacts() {
		return j.readOn(ctx)
	}
	events, err := j.place.Store.ReadRun(ctx, j.name.Run)
	if err != nil {
		return fold.Window{}, fmt.Errorf("read events: %w", err)
	}
	return j.checked(j.history(nil, events))
}

func (j *Journal) now() time.Time { return clocks.Now(j.place.Clock) }
