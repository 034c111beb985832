package watchdog_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog"
)

// A hostClock is the clock of one host. Real time goes on for all hosts alike; what a clock on the wall shows besides
// can be set. No timer of it ever fires: nothing takes time but a step of the history.
type hostClock struct {
	*clock.Mock
	real  *atomic.Int64 // since noon
	ahead atomic.Int64
}

func (c *hostClock) Now() time.Time                  { return noon.Add(time.Duration(c.real.Load() + c.ahead.Load())) }
func (c *hostClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// An uptimeHost counts besides how long it has been up.
type uptimeHost struct{ *hostClock }

func (c uptimeHost) Uptime() time.Duration { return time.Duration(c.real.Load()) }

// A fault is what is wrong with a process's way to the store.
type fault int

const (
	noFault fault = iota
	noReads
	noWrites
	noStore
	noAnswers // the store keeps what it gets, and says that it failed
	noHolds   // it refuses the events of holds
	faults
)

func (f fault) reads() bool  { return f != noReads && f != noStore }
func (f fault) writes() bool { return f != noWrites && f != noStore }
func (f fault) says() bool   { return f != noAnswers }

func (f fault) refuses(kind string) bool { return f == noHolds && kind == "hold" }

// maxExchanges is more than any step needs: a process that asks the store that often never stops.
const maxExchanges = 5000

// A database is the store of all processes.
type database struct {
	mu        sync.Mutex
	ids       map[string]watchdog.Event
	events    map[string][]watchdog.Event // by aggregate, in order
	exchanges int
}

func newDatabase() *database {
	return &database{ids: map[string]watchdog.Event{}, events: map[string][]watchdog.Event{}}
}

func (d *database) keep(events []watchdog.Event) {
	for _, e := range events {
		if _, taken := d.ids[e.ID]; taken {
			continue
		}
		d.ids[e.ID] = e
		list := d.events[e.AggregateID]
		at, _ := slices.BinarySearchFunc(list, e, watchdog.Event.Compare)
		d.events[e.AggregateID] = slices.Insert(list, at, e)
	}
}

// A connection is one process's way to the database, which can only be read whole.
type connection struct {
	*database
	fault fault
}

var errEndless = errors.New("the store is asked for ever")

// enter begins an exchange, holding mu.
func (c *connection) enter() error {
	c.mu.Lock()
	if c.exchanges++; c.exchanges > maxExchanges {
		return errEndless
	}
	return nil
}

func (c *connection) Append(_ context.Context, events ...watchdog.Event) error {
	err := c.enter()
	defer c.mu.Unlock()
	if err != nil || !c.fault.writes() || slices.ContainsFunc(events, c.refused) {
		return cmp.Or(err, errDiskFull)
	}
	c.keep(events)
	if !c.fault.says() {
		return errDiskFull
	}
	return nil
}

func (c *connection) refused(e watchdog.Event) bool {
	return c.fault.refuses(strings.TrimPrefix(e.Type, "runtime.watchdog."))
}

func (c *connection) Read(_ context.Context, _, id string) ([]watchdog.Event, error) {
	err := c.enter()
	defer c.mu.Unlock()
	if err != nil || !c.fault.reads() {
		return nil, cmp.Or(err, errDiskFull)
	}
	return slices.Clone(c.events[id]), nil
}

// A transactional connection can select and transact, too.
type transactional struct{ *connection }

func (c transactional) Select(_ context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
	err := c.enter()
	defer c.mu.Unlock()
	if err != nil || !c.fault.reads() {
		return nil, cmp.Or(err, errDiskFull)
	}
	return c.selected(s), nil
}

func (c transactional) Transact(_ context.Context, exchanges ...*watchdog.Exchange) error {
	err := c.enter()
	defer c.mu.Unlock()
	if err != nil || !c.fault.reads() || !c.fault.writes() {
		return cmp.Or(err, errDiskFull)
	}
	for _, x := range exchanges {
		events := x.Decide(c.selected(x.Selection))
		if slices.ContainsFunc(events, c.refused) {
			return errDiskFull
		}
		c.keep(events)
		x.Kept = nil
		for _, e := range events {
			x.Kept = append(x.Kept, c.ids[e.ID])
		}
	}
	if !c.fault.says() {
		return errDiskFull
	}
	return nil
}

// selected are the events that are wanted, without a second thought.
func (d *database) selected(s watchdog.Selection) (all []watchdog.Event) {
	since := s.Since.Truncate(time.Microsecond)
	from := since
	if s.Known > 0 && s.Known == d.between(s) {
		from = s.Until
	}
	last := -1 // the one that LatestOf asks for
	for i, e := range d.events[s.AggregateID] {
		if e.Timestamp.Before(since) && slices.Contains(s.LatestOf, e.Type) {
			last = i
		}
	}
	for i, e := range d.events[s.AggregateID] {
		late := !s.Since.IsZero() && !e.Timestamp.Before(from)
		if late || i == last && !s.Since.IsZero() || slices.Contains(s.IDs, e.ID) {
			all = append(all, e)
		}
	}
	return all
}

// between counts the events from Since until Until.
func (d *database) between(s watchdog.Selection) (n int) {
	for _, e := range d.events[s.AggregateID] {
		if !e.Timestamp.Before(s.Since) && e.Timestamp.Before(s.Until) {
			n++
		}
	}
	return n
}
