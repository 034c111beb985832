package drive

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen"
	"github.com/seed62658d38/watchdog/oracle/history"
)

var errDown = errors.New("the store is down")

// A database is the store of both processes, with what was stored since the last look.
type database struct {
	w      *world
	memory *watchdog.Memory

	mu    sync.Mutex
	known map[string]bool
	fresh []written
	spend ledgers
}

// A written is an event, and the process that wrote it, if it is known.
type written struct {
	watchdog.Event
	by string
}

func newDatabase(w *world) *database {
	return &database{w: w, memory: &watchdog.Memory{}, known: map[string]bool{}, spend: newLedgers()}
}

// stored notes what the store has now, but for checkpoints.
func (d *database) stored(by string, events ...watchdog.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range events {
		if !d.known[e.ID] && e.Type != checkpoint {
			d.known[e.ID] = true
			d.fresh = append(d.fresh, written{e, by})
		}
	}
}

// checkpoint is the kind of event that only the live package writes, on purpose.
const checkpoint = "runtime.watchdog.checkpoint"

var stepsOf = regexp.MustCompile(`,"steps":"[^"]*"`)

// withoutSteps has checkpoints forget what Step remembers: the frozen package does, when it restarts.
func withoutSteps(events []watchdog.Event) []watchdog.Event {
	for i, e := range events {
		if e.Type == checkpoint {
			events = slices.Clone(events)
			events[i].Payload = stepsOf.ReplaceAll(e.Payload, nil)
		}
	}
	return events
}

// write writes what was stored, in an order that does not depend on random IDs, nor on which exchange had what.
func (d *database) write(w *world) {
	d.mu.Lock()
	fresh := d.fresh
	d.fresh = nil
	charged := d.spend.changed()
	d.mu.Unlock()
	type line struct{ key, text string }
	lines := make([]line, len(fresh))
	for i, e := range fresh {
		id := history.EventID(e.ID, e.AggregateID, e.Type)
		if id == e.ID { // of one that all derive alike the first is left to chance
			id += " by " + e.by
		}
		text := fmt.Sprintf("%s %s %s %s %s", e.Timestamp.Format(stampFormat), e.AggregateID, e.Type, id, e.Payload)
		lines[i] = line{history.Masked(text), text}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return strings.Compare(a.key, b.key) })
	for _, l := range lines {
		w.lines = append(w.lines, history.Entry{Step: w.step, Topic: history.Stored, Text: l.text})
	}
	for _, text := range charged {
		w.lines = append(w.lines, history.Entry{Step: w.step, Topic: history.Charged, Text: text})
	}
}

const stampFormat = "2006-01-02T15:04:05.000000Z07:00"

// follow notes what is stored past the connections, until the end.
func (d *database) follow() (end func()) {
	ctx, end := context.WithCancel(context.Background())
	go d.memory.Follow(ctx, "", func() {}, func(e watchdog.Event) { d.stored("", e) })
	return end
}

// A fault is what is wrong with a process's way to the store.
type fault int

const (
	well fault = iota
	fails
	noWrites
	noReads
	hangs // until its context ends
	panics
	loses // the answer
	slow  // answers after a while
	exits // ends the goroutine
	faults
)

// A conn is one process's way to the database, which can only be read whole.
type conn struct {
	db    *database
	name  string
	spend *spendConn

	mu      sync.Mutex
	fault   fault
	calls   int       // that are still faulty, if that is counted
	until   time.Time // when it ends by itself, if it does
	refuses string    // a kind of event, for good
	gone    chan struct{}
}

func newConn(db *database, name string) *conn {
	c := &conn{db: db, name: name, gone: make(chan struct{})}
	c.spend = &spendConn{conn: c}
	return c
}

// break_ has something be wrong from now on.
func (c *conn) break_(f fault, calls int, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault, c.calls, c.until = f, calls, until
}

func (c *conn) refuse(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuses = kind
}

func (c *conn) heal() {
	c.mu.Lock()
	c.fault, c.calls, c.until, c.refuses = well, 0, time.Time{}, ""
	c.mu.Unlock()
	c.spend.heal()
}

// cut is the death of the process: nothing of it reaches the database any more.
func (c *conn) cut() { close(c.gone) }

func (c *conn) isCut() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// now is what is wrong with this call.
func (c *conn) now() fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.fault
	switch {
	case c.calls > 0:
		if c.calls--; c.calls == 0 {
			c.fault = well
		}
	case !c.until.IsZero() && !c.db.w.now().Before(c.until):
		c.fault, c.until, f = well, time.Time{}, well
	}
	return f
}

// ask carries out a call of the store as far as it can be.
func (c *conn) ask(
	ctx context.Context, what string, writes, reads bool, events []watchdog.Event, do func() error,
) error {
	c.db.w.count(c.name + " " + what)
	if c.isCut() {
		return errDown
	}
	f := c.now()
	if err := c.before(ctx, f, writes, reads); err != nil {
		return err
	}
	if c.isCut() {
		return errDown
	}
	if err := c.refused(events); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if f == loses {
		return errDown
	}
	return nil
}

// before is what comes of a call before it is carried out.
func (c *conn) before(ctx context.Context, f fault, writes, reads bool) error {
	switch {
	case f == fails, f == noWrites && writes, f == noReads && reads:
		return errDown
	case f == hangs:
		return c.hang(ctx)
	case f == panics:
		panic("the store panics")
	case f == exits:
		runtime.Goexit()
	case f == slow:
		return c.wait(ctx, 700*time.Millisecond)
	}
	return nil
}

// hang waits until the context ends, and a little longer: whether a store that answers at the moment at which nobody
// waits for it any more is heard, is left to chance.
func (c *conn) hang(ctx context.Context) error {
	select {
	case <-ctx.Done():
		c.db.w.sleep(time.Millisecond)
	case <-c.gone:
	}
	return errors.Join(errDown, ctx.Err())
}

// wait lets time pass, unless the context ends.
func (c *conn) wait(ctx context.Context, d time.Duration) error {
	over := make(chan struct{})
	timer := c.db.w.afterFunc(d, func() { close(over) })
	defer timer()
	select {
	case <-over:
		return nil
	case <-c.gone:
	case <-ctx.Done():
		c.db.w.sleep(time.Millisecond)
	}
	return errors.Join(errDown, ctx.Err())
}

func (c *conn) refused(events []watchdog.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuses != "" && slices.ContainsFunc(events, func(e watchdog.Event) bool {
		return strings.HasSuffix(e.Type, "."+c.refuses)
	}) {
		return fmt.Errorf("%w for events of type %s", errDown, c.refuses)
	}
	return nil
}

// Append implements watchdog.EventStore.
func (c *conn) Append(ctx context.Context, events ...watchdog.Event) error {
	events = withoutSteps(events)
	return c.ask(ctx, "append", true, false, events, func() error {
		if err := c.db.memory.Append(context.Background(), events...); err != nil {
			return err
		}
		c.db.stored(c.name, events...)
		return nil
	})
}

// Read implements watchdog.EventStore.
func (c *conn) Read(ctx context.Context, kind, id string) (events []watchdog.Event, err error) {
	err = c.ask(ctx, "read", false, true, nil, func() error {
		events, err = c.db.memory.Read(context.Background(), kind, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return events, nil
}

// A transactional connection can select and transact, too.
type transactional struct{ *conn }

// Select implements watchdog.TransactionalStore.
func (c transactional) Select(ctx context.Context, s watchdog.Selection) (events []watchdog.Event, err error) {
	err = c.ask(ctx, "select", false, true, nil, func() error {
		events, err = c.db.memory.Select(context.Background(), s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return events, nil
}

// Transact implements watchdog.TransactionalStore.
func (c transactional) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	var decided []watchdog.Event
	for _, x := range exchanges {
		decide := x.Decide
		x.Decide = func(selected []watchdog.Event) []watchdog.Event {
			events := withoutSteps(decide(selected))
			if c.refused(events) != nil {
				panic(errRefused)
			}
			decided = append(decided, events...)
			return events
		}
		defer func() { x.Decide = decide }()
	}
	return c.ask(ctx, "transact", true, true, nil, func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				if p != any(errRefused) {
					panic(p)
				}
				err = fmt.Errorf("%w for events of some type", errDown)
			}
		}()
		if err := c.db.memory.Transact(context.Background(), exchanges...); err != nil {
			return err
		}
		c.db.stored(c.name, decided...)
		return nil
	})
}

var errRefused = errors.New("refused")
