package share

import (
	"context"
	"fmt"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

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
