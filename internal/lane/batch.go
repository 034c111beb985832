package lane

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/machine"
)

// A recordable is what a run has to record: its end, entries, or both.
type recordable struct {
	r      *Recorder
	ending *Ending // nil if the run goes on
	end    stop
	// entries are those that the host is told of once they were tried.
	entries []*machine.Entry
	only    bool // there is no end to record
	began   time.Time
	window  *journal.WindowExchange // of the end
	alone   bool                    // it goes by itself, and none of a batch waits for it
}

func recordables(of []*Recorder) batch {
	all, b := make([]recordable, len(of)), make(batch, len(of))
	for i, r := range of {
		all[i], b[i] = r.recordable(), &all[i]
	}
	return b
}

func (r *Recorder) recordable() recordable {
	r.run.Lock()
	defer r.run.Unlock()
	t := r.underway()
	one := recordable{r: r, entries: t.untold, only: true, began: t.since}
	t.again, t.untold, t.since = false, nil, time.Time{}
	if r.ending != nil && !r.ending.Here {
		one.ending, one.only, one.began = r.ending, false, r.ending.Began
	}
	return one
}

// Carry records what the run has to, on the goroutine of a caller that has waited since began, and tells the host.
func (r *Recorder) Carry(began time.Time) { CarryAll([]*Recorder{r}, began) }

// CarryAll is Carry for several runs. The hosts are told once all is recorded: they may block, or end this goroutine as
// the store may.
func CarryAll(all []*Recorder, began time.Time) {
	b := recordables(all)
	for _, one := range b {
		one.began = began
	}
	defer b.tellHosts()
	bounded.Each(b, (*recordable).carryOut)
}

func (one *recordable) carryOut() { batch{one}.carryOut() }

// left is what is left of the record timeout, all of it if nobody has waited yet.
func (one *recordable) left() time.Duration {
	p := one.r.Place()
	if one.began.IsZero() || p.Instant {
		return p.Timeout
	}
	return p.Left(one.began)
}

// A batch is runs of one lane that share exchanges.
type batch []*recordable

func (b batch) only(wanted func(*recordable) bool) (some batch) {
	for _, one := range b {
		if wanted(one) {
			some = append(some, one)
		}
	}
	return some
}

// hasEntries reports whether entries are to be recorded: those that were decided on, or of a run that goes on all that
// wait.
func (one *recordable) hasEntries() bool { return len(one.entries) > 0 || one.only }

func (one *recordable) shared() bool { return !one.alone }

// carryOut ends the runs whose end is decided, and then records what else was. When the time is over, the store is not
// asked any more: the rest ends at once. What was decided meanwhile is recorded next.
func (b batch) carryOut() {
	defer func() { // also if the store ends this goroutine
		bounded.Each(b.only((*recordable).shared), (*recordable).finish)
	}()
	b.only(func(one *recordable) bool { return one.ending != nil }).share((*recordable).recordEnd, batch.endTogether)
	b.only((*recordable).hasEntries).share((*recordable).append, batch.appendTogether)
}

// share has the runs share an exchange if the store and the time allow it, and otherwise goes through them.
func (b batch) share(single func(*recordable), together func(batch)) {
	b = b.free()
	if len(b) > 1 && b[0].left() > 0 {
		together(b)
		return
	}
	bounded.Each(b, single)
}

// halve has the halves of a batch that the store refused share an exchange each, until the one that is at fault is
// alone.
func (b batch) halve(single func(*recordable), together func(batch)) {
	b[:len(b)/2].share(single, together)
	b[len(b)/2:].share(single, together)
}

// free returns the runs that have no other conversation with the store. Those that have, and those that go by
// themselves already, are none of the batch.
func (b batch) free() batch {
	if len(b) < 2 || b[0].r.Place().Instant || b[0].left() <= 0 {
		return b.only((*recordable).shared)
	}
	return b.only(func(one *recordable) bool {
		if one.shared() && one.r.Busy() {
			one.byItself()
		}
		return one.shared()
	})
}

// byItself does what is left to do for a run that must not hold up others, on a goroutine of its own.
func (one *recordable) byItself() {
	one.alone = true
	go func() {
		b := batch{{r: one.r, ending: one.ending, entries: one.entries, only: one.only, began: one.began}}
		defer b.tellHosts()
		b.carryOut()
	}()
}

func (one *recordable) recordEnd() {
	known, err := fold.Window{}, journal.ErrExited
	defer func() { one.ended(&known, err) }() // also if the store ends this goroutine
	known, err = one.r.recordTrip(one.ending, one.left())
}

// ended ends the run, whatever the store said.
func (one *recordable) ended(known *fold.Window, err error) {
	if err != nil && known.Stop == nil { // the store ended the goroutine
		end := one.r.stopOf(one.ending.Trip)
		known.Stop = end.own
		one.r.Keep(err, end.event)
	}
	one.r.run.Conclude(one.ending, known, err)
	one.ending = nil
}

func (one *recordable) append() { one.r.appendPending(one.left()) }

// finish ends the job, or has what was decided meanwhile recorded.
func (one *recordable) finish() {
	r, more := one.r, false
	r.locked(func() {
		r.run.Tried(one.entries)
		t := r.tried
		if more = t.again; !more {
			close(t.job)
			t.job = nil
		}
	})
	switch {
	case more && r.Place().Inline: // who carries tells the host afterwards
		next := r.recordable()
		next.began = one.began
		next.carryOut()
	case more:
		Enqueue(r)
	}
}

// endTogether records the ends in one transaction, each as if it were alone, and ends their runs.
func (b batch) endTogether() {
	b = b.enter()
	exchanges := make([]*event.Exchange, len(b))
	for i, one := range b {
		one.end = one.r.stopOf(one.ending.Trip)
		one.window = one.r.Prepare(one.r.missingPauses(), one.end.unlessKnown(one.ending.Trip))
		exchanges[i] = &one.window.Exchange
	}
	refused, err := b.converse(func(ctx context.Context) error {
		return b[0].r.Place().Store.Transactional.Transact(ctx, exchanges...)
	})
	if refused {
		b.halve((*recordable).recordEnd, batch.endTogether)
		return
	}
	for _, one := range b {
		var done journal.Result
		if err == nil {
			done = one.window.Result()
		}
		known, err := one.r.recordedTrip(done, err, &one.end)
		one.ended(&known, err)
	}
}

func (b batch) appendTogether() {
	b = b.enter()
	refused, err := b.converse(b.appendPending)
	if refused {
		b.halve((*recordable).append, batch.appendTogether)
		return
	}
	for _, one := range b {
		if err != nil {
			missing, _ := one.r.missing()
			one.r.notStored(err, missing...)
		}
	}
}

// appendPending appends what is pending of all runs, and notes that it is stored, also if the store says so late.
func (b batch) appendPending(ctx context.Context) error {
	pending := make([][]*machine.Entry, len(b))
	var all []event.Event
	for i, one := range b {
		missing, events := one.r.missing()
		pending[i], all = missing, append(all, events...)
	}
	if err := b[0].r.Place().Store.Append(ctx, all...); err != nil {
		return fmt.Errorf("append events: %w", err)
	}
	for i, one := range b {
		one.r.stored(pending[i])
	}
	for _, one := range b {
		one.r.ReadAlong(ctx)
	}
	return nil
}

// enter begins a conversation of each run. One that began another meanwhile goes by itself.
func (b batch) enter() batch {
	if b[0].r.Place().Instant {
		return b
	}
	return b.only(func(one *recordable) bool {
		entered := one.r.Enter()
		if !entered {
			one.byItself()
		}
		return entered
	})
}

// converse has the conversation of all runs that have entered, within what is left of their time. It reports whether
// the store refused, in time: then each of its runs may have more luck.
func (b batch) converse(talk func(context.Context) error) (refused bool, err error) {
	if len(b) == 0 {
		return false, nil
	}
	p := b[0].r.Place()
	//nolint:unparam // as Converse asks for it
	talkTo := func(ctx context.Context) (journal.Nothing, error) { return journal.Nothing{}, talk(ctx) }
	shared := sharedContext{context.Background(), b}
	if p.Instant {
		_, err = journal.Here(func() (journal.Nothing, error) { return talkTo(shared) })
		return err != nil, err
	}
	ctx, cancel := clocks.WithTimeout(shared, p.Clock, b[0].left())
	defer cancel()
	for _, one := range b { // halves of it have no more time
		if one.began.IsZero() {
			one.began = clocks.Now(p.Clock)
		}
	}
	leave := func() {
		for _, one := range b {
			one.r.Leave()
		}
	}
	_, err = journal.Converse(shared, ctx, p, leave, talkTo)
	return err != nil && ctx.Err() == nil, err
}

// A sharedContext has the values that the contexts of all runs of a batch agree on, and no end. A store that needs
// another one refuses the batch, and finds it when it is asked for each run.
type sharedContext struct {
	context.Context
	runs batch
}

// Value implements [context.Context].
func (c sharedContext) Value(key any) any {
	var found any
	for i, one := range c.runs {
		value := one.r.run.Values().Value(key)
		if value == nil || !reflect.ValueOf(value).Comparable() || i > 0 && value != found {
			return nil
		}
		found = value
	}
	return found
}

// tellHosts tells the hosts, also if one of their logs ends this goroutine. Callbacks are told on goroutines of their
// own, so that one that hangs holds up only itself.
func (b batch) tellHosts() {
	b = slices.Clone(b.only((*recordable).shared))
	if len(b) == 0 {
		return
	}
	if b[0].r.Place().Inline {
		bounded.Each(b, func(one *recordable) { one.r.run.Tell(true) })
		return
	}
	var logs []func()
	for _, one := range b {
		if log := one.r.run.Tell(false); log != nil {
			logs = append(logs, log)
		}
	}
	if len(logs) > 0 {
		go bounded.Each(logs, bounded.Quietly)
	}
}
