package watchdog_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/procid"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/watchdogtest"
)

// A hostClock is the clock of one host. Real time goes on for all hosts alike; what a clock on the wall shows besides
// can be set. No timer of it ever fires: nothing takes time but a step of the history.
type hostClock struct {
	*watchdogtest.MockClock
	real  *atomic.Int64 // since noon
	ahead atomic.Int64
}

func (c *hostClock) Now() time.Time { return noon.Add(time.Duration(c.real.Load() + c.ahead.Load())) }

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
	fault     fault
	elsewhere bool            // nothing is known of its process
	openers   map[string]bool // the names of its attaches that opened holds
}

// opened has the events say of a process that it is elsewhere, and notes who opened holds.
func (c *connection) opened(events []watchdog.Event) []watchdog.Event {
	events = slices.Clone(events)
	for i := range events {
		var p record.Hold
		if e := &events[i]; e.Type == event.Hold && json.Unmarshal(e.Payload, &p) == nil {
			c.openers[p.Opener.Attach] = true
			if c.elsewhere {
				p.Opener.Boot = "elsewhere"
				e.Payload = record.JSON(p)
			}
		}
	}
	return events
}

// kill has it known that its process is gone, unless that is elsewhere.
func (c *connection) kill() {
	for name := range c.openers {
		procid.Detach(&record.Opener{Attach: name})
	}
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
	c.keep(c.opened(events))
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

func (c transactional) Select(_ context.Context, s event.Selection) ([]watchdog.Event, error) {
	err := c.enter()
	defer c.mu.Unlock()
	if err != nil || !c.fault.reads() {
		return nil, cmp.Or(err, errDiskFull)
	}
	return c.selected(s), nil
}

func (c transactional) Transact(_ context.Context, exchanges ...*event.Exchange) error {
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
		c.keep(c.opened(events))
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
func (d *database) selected(s event.Selection) (all []watchdog.Event) {
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
func (d *database) between(s event.Selection) (n int) {
	for _, e := range d.events[s.AggregateID] {
		if !e.Timestamp.Before(s.Since) && e.Timestamp.Before(s.Until) {
			n++
		}
	}
	return n
}

// polled is what a host that polls is given: the cancel last.
func (r *modelRun) polled() []modelMail {
	mail := r.mail
	if r.stop != nil && !r.mailed {
		r.mailed = true
		mail = append(mail, modelMail{watchdog.DirectiveCancel, r.stop.code, r.stop.hold, r.stop.rung})
	}
	r.mail = nil
	return mail
}

// pass lets time pass.
func (r *modelRun) pass(d time.Duration) { r.elapsed += d }

func (r *modelRun) heeds() bool {
	return r.heeding || r.budget.Idle != 0 || r.budget.NoProgress != 0 || len(r.budget.Ladders.Hold) > 0
}

// signal is a sign of life of the run and of those around it.
func (r *modelRun) signal(progress bool) {
	for ; r != nil; r = r.outer {
		r.sign(progress)
	}
}

func (r *modelRun) sign(progress bool) {
	if !r.running() || !r.heeds() {
		return
	}
	if !r.signalled {
		r.signalled, r.first = true, r.elapsed
	}
	r.active = r.elapsed
	if progress {
		r.progressed, r.progress = true, r.elapsed
	}
}

func (r *modelRun) digest(digest string) (first bool) {
	heeded := false
	for of := r; of != nil; of = of.outer {
		fresh := !of.digests[digest]
		of.digests[digest] = true
		of.sign(fresh)
		if of == r || of.heeds() && !heeded {
			first = fresh
		}
		heeded = heeded || of.heeds()
	}
	return first
}

// rungOf is where the directives that were given leave a ladder.
func (r *modelRun) rungOf(limit, hold string) (rung int) {
	for _, g := range r.given {
		if g.limit == limit && g.hold == hold {
			rung = max(rung, g.rung)
		}
	}
	return rung
}

func (r *modelRun) extend(d time.Duration) error {
	if r.outer != nil {
		r.look()
		own, around := r.left(), r.outer.remaining()
		if r.running() && own != watchdog.NoLimit && around != watchdog.NoLimit {
			d = min(d, around-own)
			if d < time.Microsecond {
				return watchdog.ErrInvalid
			}
		}
	}
	d = d.Truncate(time.Microsecond)
	r.look()
	switch {
	case !r.running():
		return watchdog.ErrEnded
	case r.allowed() == watchdog.NoLimit:
		return watchdog.ErrInvalid
	}
	before := r.extended
	e := &modelFact{kind: "extend", apply: func(w *modelWindow) { w.extended += d }}
	known, kept, err := r.transact(nil, func(known modelNews) *modelFact {
		if known.over() {
			return nil
		}
		return e
	})
	if err != nil {
		return err
	}
	if kept != nil {
		known.extended = max(known.extended, before+d)
	}
	if r.adopt(known) != nil {
		return watchdog.ErrEnded
	}
	return nil
}

func (r *modelRun) cancel(code watchdog.StopReason) (watchdog.StopReason, error) {
	r.lookFor(code)
	if r.stop == nil {
		return "", watchdog.ErrEnded
	}
	return r.stop.code, nil
}

// layer is a run inside, which begins now whatever ran before.
func (r *modelRun) layer(budget watchdog.Budget) (*modelRun, error) {
	r.look()
	left := r.remaining()
	if !r.running() || left <= budget.Reserve {
		return nil, watchdog.ErrEnded
	}
	budget.WallClock = min(limitOf(budget.WallClock), left)
	return &modelRun{
		host: r.host, process: r.process, outer: r, opener: r.opener, budget: budget, digests: map[string]bool{},
		ends:   map[*modelPause]*modelEntry{},
		window: newModelWindow(r.host.now()), elapsed: r.host.clock.Now().Sub(r.host.now()),
		attached: r.host.clock.Now().Sub(r.host.now()),
	}, nil
}

// close lets the run go. It reports whether the store has everything.
func (r *modelRun) close() bool {
	if r.judgeParent(); r.running() {
		r.endWith(watchdog.ErrClosed)
	}
	r.tryPending()
	return len(r.pending) == 0
}

func (r *modelRun) judgeParent() {
	if r.running() && r.outer != nil && !r.outer.running() {
		r.endWith(r.outer.cause)
	}
}

// takeUp is a process that attaches to the window.
func takeUp(p *process, w *modelWindow, budget watchdog.Budget) *modelRun {
	host := p.host
	at := max(host.clock.Now().Sub(w.start), 0)
	r := &modelRun{
		host: host, process: p, window: w, budget: budget, digests: map[string]bool{}, elapsed: at, attached: at,
		opener: &modelOpener{elsewhere: p.connection.elsewhere}, ends: map[*modelPause]*modelEntry{},
	}
	r.extended = w.extended
	r.warned, r.wrapped = w.asked[modelAsk{"warning", r.allowed()}], w.asked[modelAsk{"wrap_up", r.allowed()}]
	if stop := w.stop(); stop != nil {
		r.endStopped(stop)
		return r
	}
	for _, d := range w.directives {
		if !d.over {
			r.given = append(r.given, modelGiven{d, at})
		}
	}
	r.idle = modelRung{rung: r.rungOf("idle", ""), at: at}
	r.noProgress = modelRung{rung: r.rungOf("no_progress", ""), at: at}
	r.restoreHolds()
	return r
}
