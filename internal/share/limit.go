// Package share carries what this process holds of limits that a store keeps: it takes slices of them, waits for those
// that are being taken, charges what was used beyond them, and gives back what is left. The runs that share a limit
// share what is held of it.
//
// What to take and what to give back is for package ledger to say. It knows no run, and tries nothing again by itself.
package share

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/ordered"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Store keeps one limit. Those that are equal keep the same one.
type Store interface {
	// Take charges the slice, Return gives back what is left of one. MayBeCharged reports whether a slice may be charged
	// all the same after that error of Take.
	Take(ctx context.Context, s *ledger.Slice) (ledger.Grant, error)
	Return(ctx context.Context, one ledger.Return) error
	MayBeCharged(err error) bool
	// AnswersAtOnce reports that nobody has to wait for it.
	AnswersAtOnce() bool
	// String is the name of the limit, Amounts the counts that are not zero, as people read them.
	String() string
	Amounts(counts *verdict.Counts) string
}

// A Carrier is how a run has its store asked.
type Carrier struct {
	Clock   clock.Clock // the host's; nil is the machine's
	Timeout time.Duration
	Inline  bool // everything is done on the goroutine of the caller
	// Stopwatch begins to count, and returns how much real time has gone by since.
	Stopwatch func() func() time.Duration
}

// Context is one that lasts no longer than the timeout.
func (c *Carrier) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return clocks.WithTimeout(parent, c.Clock, c.Timeout)
}

// A Limit is what this process holds of a limit. It is safe for concurrent use.
type Limit struct {
	store  Store
	number int // in the order of the locks; 0 of one that nobody shares
	runs   int // that share it, guarded by the mutex of all that are shared

	mu      sync.Mutex // guards the rest
	Held    ledger.Shared
	elapsed func() time.Duration // times its windows
	taking  *taking              // the slice that is being taken; nil if none is
	failed  error                // why the last try to take what is owed failed
	rest    []ledger.Return      // what there was no time for
}

// shared are the limits that all runs of the process share.
var shared struct {
	mu   sync.Mutex
	last int // number
	open map[Store]*Limit
}

// Own returns a limit of one run, in one process.
func Own(store Store) *Limit { return &Limit{store: store, runs: 1} }

// Open returns what this process holds of a limit, for one more run. Of a store that cannot be compared, each run holds
// its own.
func Open(store Store) *Limit {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	l := &Limit{store: store}
	if compares(store) {
		if shared.open == nil {
			shared.open = map[Store]*Limit{}
		}
		l = cmp.Or(shared.open[store], l)
		shared.open[store] = l
	}
	if l.runs++; l.number == 0 {
		shared.last++
		l.number = shared.last
	}
	return l
}

// Leave lets go of it for one run, and reports whether nobody draws on it any more. That one closes it.
func (l *Limit) Leave() (last bool) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if l.runs--; l.runs > 0 {
		return false
	}
	if compares(l.store) && shared.open[l.store] == l {
		delete(shared.open, l.store)
	}
	return true
}

func compares(store Store) bool { return reflect.ValueOf(store).Comparable() }

// String is the name of the limit.
func (l *Limit) String() string { return l.store.String() }

// Lock locks what is held, and leaves a window that is over.
func (l *Limit) Lock() {
	if l.mu.Lock(); l.Held.Timed() {
		l.Held.Turn(l.elapsed())
	}
}

// Unlock unlocks what is held.
func (l *Limit) Unlock() { l.mu.Unlock() }

// Owed is what was used beyond what was taken.
func (l *Limit) Owed() verdict.Counts {
	l.Lock()
	defer l.Unlock()
	return l.Held.Owed()
}

// InOrder returns the limits as they are locked together: each once.
func InOrder(limits []*Limit) []*Limit {
	limits = slices.Clone(limits)
	ordered.Sort(limits, func(a, b *Limit) int { return a.number - b.number })
	return slices.Compact(limits)
}

// A taking is a slice that the store is asked for. The rest is there once done is closed.
type taking struct {
	*ledger.Take
	done chan struct{}
	fits bool
	err  error
	over []ledger.Return // what is to be given back by then
}

// Begin takes the first slice of a window, unless there is one, and so learns what that is charged with.
func (l *Limit) Begin(ctx context.Context, c *Carrier, limit *verdict.Counts) error {
	for {
		l.Lock()
		begun := l.Held.Begun()
		l.Unlock()
		if begun {
			return nil
		}
		if _, err := l.Take(ctx, c, &ledger.Slice{Limit: *limit}); err != nil {
			return err
		}
	}
}

// Take takes a slice and reports whether it fits. If one is being taken, it waits for that instead, and after a lost
// answer it asks for that one again; the caller looks again then. It waits no longer than ctx lasts.
func (l *Limit) Take(ctx context.Context, c *Carrier, want *ledger.Slice) (fits bool, err error) {
	t, mine, err := l.ask(ctx, c, want)
	return err == nil && (!mine || t.Again || t.fits), err
}

// ask is Take for a slice, or nil for one of what is owed: then it returns nil if there is nothing to ask for. A store
// that does not heed ctx is not asked anything else until it answers. The error is that of the caller's own slice, or
// of ctx.
func (l *Limit) ask(ctx context.Context, c *Carrier, want *ledger.Slice) (t *taking, mine bool, err error) {
	if ctx.Err() != nil {
		return nil, false, fmt.Errorf("take a slice of %s: %w", l.store, bounded.Cause(ctx))
	}
	if t, mine = l.begin(c, want); t == nil {
		return nil, false, nil
	}
	if mine {
		l.aside(ctx, c, func(ctx context.Context) { l.carryOut(ctx, c, t) })
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		return t, mine, fmt.Errorf("wait for a slice of %s: %w", l.store, bounded.Cause(ctx))
	}
	if mine {
		err = t.err
	}
	return t, mine, err
}

// here reports that whoever asks the store waits for it on his own goroutine.
func (l *Limit) here(c *Carrier) bool { return c.Inline || l.store.AnswersAtOnce() }

// aside does what asks the store on another goroutine, for whoever gives up waiting, unless there is no need.
func (l *Limit) aside(ctx context.Context, c *Carrier, do func(context.Context)) {
	if l.here(c) {
		do(ctx)
		return
	}
	go func() {
		ctx, cancel := c.Context(context.WithoutCancel(ctx))
		defer cancel()
		do(ctx)
	}()
}

// begin makes the slice the one that is being taken, unless another one is. The windows are timed from here on, by the
// clock of whoever asks first.
func (l *Limit) begin(c *Carrier, want *ledger.Slice) (t *taking, mine bool) {
	l.Lock()
	defer l.Unlock()
	if l.taking == nil && !l.Held.Timed() {
		l.elapsed = c.Stopwatch()
	}
	take, begun := l.Held.Begin(l.elapsed(), record.EventID("", "", "", ""), want)
	switch {
	case take == nil:
		return nil, false
	case begun:
		l.taking = &taking{Take: take, done: make(chan struct{})}
	}
	return l.taking, begun
}

// carryOut asks the store, and then gives back what is over: what is left of windows before, and, if nobody draws on
// the limit any more, what it was granted.
func (l *Limit) carryOut(ctx context.Context, c *Carrier, t *taking) {
	var grant ledger.Grant
	t.err = bounded.ErrExited
	defer func() { // also if the store ends this goroutine
		closed := l.took(t, &grant)
		if len(t.over) == 0 { // nearly always
			return
		}
		if closed || !l.here(c) {
			fresh, cancel := c.Context(context.WithoutCancel(ctx))
			defer cancel()
			ctx = fresh
		}
		_ = l.giveBack(ctx, c, t.over) // it stays charged in a window that is over, or the log has told of it
	}()
	grant, t.err = l.store.Take(ctx, &t.Slice)
}

// took notes what came of it. It reports whether nobody draws on the limit any more.
func (l *Limit) took(t *taking, g *ledger.Grant) (closed bool) {
	defer close(t.done)
	l.Lock()
	defer l.Unlock()
	l.taking, l.failed, t.fits = nil, nil, g.Fits
	if t.err == nil {
		l.Held.Granted(g)
	} else {
		l.Held.NotGranted(l.store.MayBeCharged(t.err))
		t.err = fmt.Errorf("take a slice of %s: %w", l.store, t.err)
		l.failed = t.err
	}
	if closed = l.Held.Closed(); closed || t.err == nil { // else the store would not take that either
		t.over = l.returns()
	}
	return closed
}
