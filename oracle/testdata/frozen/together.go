package watchdog

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/bounded"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
)

// A ringing is what a ring found of one run: its trip, what is to be recorded besides, or both.
type ringing struct {
	w       *Watchdog
	trip    *trip     // nil if the run goes on
	found   *findings // but for the trip; nil if there is nothing else
	endTask func()    // of the task that records the entries; nil if there are none
	alone   bool      // does it by itself, and none of a batch waits for it
	news    news
}

// takeEntries has the ringing record the entries of what was found, in a task that Close waits for, unless another is
// under way.
func (one *ringing) takeEntries(found *findings) bool {
	if one.endTask = one.w.recorder.onlyTask(); one.endTask == nil {
		return false
	}
	one.found, one.news.warnings = found, found.warnings
	return true
}

func (one *ringing) hasEntries() bool { return one.endTask != nil }

// end records the trip in an exchange of its own, for at most limit, and ends the run.
func (one *ringing) end(limit time.Duration) {
	one.w.carryOutWithin(one.trip, limit, &one.news)
	one.ended()
}

func (one *ringing) ended() {
	one.trip = nil
	one.w.wake(one.news.takeAsleep())
}

// record records the entries in an exchange of their own, for at most limit.
func (one *ringing) record(limit time.Duration) {
	defer one.recorded() // also if the store ends this goroutine
	one.w.recorder.appendPending(one.w.storeContext(), limit)
}

// recorded ends the task of entries whose record was tried.
func (one *ringing) recorded() {
	one.news.recorded(one.w, one.found)
	one.w.wake(one.news.takeAsleep())
	one.endTask()
}

// tellHost tells the host of one run.
func (one *ringing) tellHost() { one.w.tellHost(&one.news) }

// byItself does what is left to do for a run that must not hold up others, on a goroutine of its own.
func (one *ringing) byItself(g *group) {
	one.alone = true
	go func() {
		defer one.tellHost()
		if one.trip != nil {
			one.end(g.left())
		}
		if one.hasEntries() {
			one.record(g.left())
		}
	}()
}

// A batch is runs of one group that share exchanges.
type batch []*ringing

// only returns the runs of the batch that are wanted.
func (b batch) only(wanted func(*ringing) bool) (some batch) {
	for _, one := range b {
		if wanted(one) {
			some = append(some, one)
		}
	}
	return some
}

// carryOut ends the runs that have tripped, and then records what else was found. When the time is over, the store is
// not asked any more: the rest ends at once.
func (g *group) carryOut(b batch) {
	g.share(b.only(func(one *ringing) bool { return one.trip != nil }), (*ringing).end, g.endTogether)
	g.share(b.only((*ringing).hasEntries), (*ringing).record, g.recordTogether)
}

// share has the runs share an exchange if the store and the time allow it, and otherwise goes through them.
func (g *group) share(b batch, each func(*ringing, time.Duration), together func(batch)) {
	b = g.free(b)
	if len(b) > 1 && g.able != nil && g.left() > 0 {
		together(b)
		return
	}
	for _, one := range b {
		each(one, g.left())
	}
}

// halve has the halves of a batch that the store refused share an exchange each, until the one that is at fault is
// alone.
func (g *group) halve(b batch, each func(*ringing, time.Duration), together func(batch)) {
	g.share(b[:len(b)/2], each, together)
	g.share(b[len(b)/2:], each, together)
}

// free returns the runs that have no other conversation with the store. Those that have, and those that go by
// themselves already, are none of the batch.
func (g *group) free(b batch) batch {
	if g.left() <= 0 {
		return b.only((*ringing).shared)
	}
	return b.only(func(one *ringing) bool {
		if one.shared() && !g.instant && one.w.recorder.busy() {
			one.byItself(g)
		}
		return one.shared()
	})
}

func (one *ringing) shared() bool { return !one.alone }

// An ending is the trip of one run of a batch, as its exchange needs it.
type ending struct {
	*ringing
	event    Event
	own      *record.Cancel
	exchange windowExchange
}

func (e *ending) prepare(one *ringing) {
	e.ringing = one
	e.event, e.own = one.w.cancelEvent(one.trip)
	e.exchange.prepare(one.w, one.w.onceIDsWith(one.w.startedAt, e.event.ID), one.w.recorder.missingPauses(),
		one.w.unlessKnown(one.trip, &e.event))
}

// over ends the run, whatever came of the exchange.
func (e *ending) over(done transacted, err error) {
	end, err := e.w.recordedTrip(done, err, e.event, e.own)
	e.w.carriedOut(e.trip, e.event, e.own, end, err, &e.news)
	e.ended()
}

// endTogether records the trips in one transaction, each as if it were alone, and ends their runs.
func (g *group) endTogether(b batch) {
	b = g.enter(b)
	endings, exchanges := make([]ending, len(b)), make([]*Exchange, len(b))
	for i, one := range b {
		endings[i].prepare(one)
		exchanges[i] = &endings[i].exchange.Exchange
	}
	all, refused, err := converseTogether(g, b, func(ctx context.Context) ([]transacted, error) {
		if err := g.able.Transact(ctx, exchanges...); err != nil {
			return nil, err
		}
		all := make([]transacted, len(endings))
		for i := range endings {
			all[i] = endings[i].exchange.transacted()
		}
		return all, nil
	})
	switch {
	case refused:
		g.halve(b, (*ringing).end, g.endTogether)
		return
	case err != nil:
		all = make([]transacted, len(b))
	}
	for i := range endings {
		endings[i].over(all[i], err)
	}
}

// recordTogether records the entries in one append.
func (g *group) recordTogether(b batch) {
	b = g.enter(b)
	_, refused, err := converseTogether(g, b, func(ctx context.Context) (nothing, error) {
		return nothing{}, b.appendPending(ctx, g.store)
	})
	if refused {
		g.halve(b, (*ringing).record, g.recordTogether)
		return
	}
	for _, one := range b {
		if err != nil {
			one.w.recorder.notStored(err, one.w.recorder.missing()...)
		}
		one.recorded()
	}
}

// appendPending appends what is pending of all runs, and notes that it is stored, also if the store says so late.
func (b batch) appendPending(ctx context.Context, store EventStore) error {
	pending := make([][]*entry, len(b))
	var events []Event
	for i, one := range b {
		pending[i] = one.w.recorder.missing()
		for _, e := range pending[i] {
			events = append(events, e.events...)
		}
	}
	if err := store.Append(ctx, events...); err != nil {
		return fmt.Errorf("append events: %w", err)
	}
	for i, one := range b {
		one.w.recorder.stored(pending[i])
	}
	return nil
}

// enter begins a conversation of each run. One that began another meanwhile goes by itself.
func (g *group) enter(b batch) batch {
	if g.instant {
		return b
	}
	return b.only(func(one *ringing) bool {
		entered := one.w.recorder.enterNow()
		if !entered {
			one.byItself(g)
		}
		return entered
	})
}

// converseTogether has the conversation of all runs that have entered, within what is left of their time. It reports
// whether the store refused, in time: then each of its runs may have more luck.
func converseTogether[T any](
	g *group, b batch, talk func(context.Context) (T, error),
) (value T, refused bool, err error) {
	shared := sharedContext{context.Background(), b}
	if g.instant {
		value, err = storeErr(bounded.Here(func() (T, error) { return talk(shared) }))
		return value, err != nil, err
	}
	ctx, cancel := clocks.WithTimeout(shared, g.clock, g.left())
	defer cancel()
	leave := func() {
		for _, one := range b {
			one.w.recorder.leave()
		}
	}
	value, err = converse(shared, ctx, g.timeout, leave, talk)
	return value, err != nil && ctx.Err() == nil, err
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
		value := one.w.storeContext().Value(key)
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
	each(b.only((*ringing).shared), func(one *ringing) {
		if one.callsBack() {
			go one.tellHost()
			return
		}
		one.tellHost()
	})
}

// callsBack reports whether more than a log is to be told.
func (one *ringing) callsBack() bool {
	return one.w.onWarning != nil && len(one.news.warnings) > 0 || one.w.trace.waiting()
}
