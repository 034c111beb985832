package drive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
)

// ledgers are what windows of scopes are charged with.
type ledgers struct {
	charged map[window]watchdog.Totals
	slices  map[string]slice
	dirty   map[window]bool
}

type window struct{ scope, name string }

type slice struct {
	window
	granted  watchdog.Totals
	returned bool
}

func newLedgers() ledgers {
	return ledgers{map[window]watchdog.Totals{}, map[string]slice{}, map[window]bool{}}
}

// changed says what windows are charged with that have changed.
func (l *ledgers) changed() (lines []string) {
	all := slices.SortedFunc(maps.Keys(l.dirty), func(a, b window) int {
		return cmp.Or(cmp.Compare(a.scope, b.scope), cmp.Compare(a.name, b.name))
	})
	for _, at := range all {
		lines = append(lines, fmt.Sprintf("%q %q %+v", at.scope, at.name, l.charged[at]))
	}
	clear(l.dirty)
	return lines
}

// A spendConn is one process's way to what scopes are charged with.
type spendConn struct {
	*conn

	mu    sync.Mutex
	fault fault
	until time.Time
	calls int
}

func (c *spendConn) spendBreak(f fault, calls int, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault, c.calls, c.until = f, calls, until
}

func (c *spendConn) heal() { c.spendBreak(well, 0, time.Time{}) }

func (c *spendConn) wrong() fault {
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

// begin is what comes of a call before it is carried out.
func (c *spendConn) begin(ctx context.Context, what string, writes, reads bool) (fault, error) {
	c.db.w.count(c.name + " " + what)
	f := c.wrong()
	if c.isCut() {
		return f, errDown
	}
	if err := c.before(ctx, f, writes, reads); err != nil {
		return f, err
	}
	if c.isCut() {
		return f, errDown
	}
	return f, nil
}

// Take implements watchdog.SpendStore.
func (c *spendConn) Take(ctx context.Context, s watchdog.Slice) (watchdog.Grant, error) {
	f, err := c.begin(ctx, "take", false, true)
	if err != nil {
		return watchdog.Grant{}, err
	}
	d := c.db
	d.mu.Lock()
	defer d.mu.Unlock()
	g, err := d.memory.Take(context.Background(), s)
	if err != nil {
		return g, err
	}
	at := window{s.Scope, g.Window}
	if _, again := d.spend.slices[s.ID]; g.Fits && !again {
		d.spend.slices[s.ID] = slice{at, g.Granted, false}
		d.spend.charged[at], d.spend.dirty[at] = d.spend.charged[at].Add(g.Granted), true
	}
	if f == loses {
		return watchdog.Grant{}, errDown
	}
	return g, nil
}

// Return implements watchdog.SpendStore.
func (c *spendConn) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	f, err := c.begin(ctx, "return", true, false)
	if err != nil {
		return err
	}
	d := c.db
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.memory.Return(context.Background(), id, unused); err != nil {
		return err
	}
	if s := d.spend.slices[id]; !s.returned {
		s.returned = true
		d.spend.slices[id] = s
		d.spend.charged[s.window], d.spend.dirty[s.window] = d.spend.charged[s.window].Sub(unused), true
	}
	if f == loses {
		return errDown
	}
	return nil
}

var errWork = errors.New("the work failed")
