package watchdog_test

import (
	"context"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog"
)

// What a spendConnection does with the next calls.
type spendFault int

const (
	spendWell   spendFault = iota
	spendFails             // without carrying it out
	spendLost              // carries it out, and the answer is lost
	spendSlow              // answers after a second
	spendLate              // carries it out after the record timeout, whatever its context says
	spendFaults            // how many there are
)

var errSpendStore = errors.New("spend store is down")

// A spendLedger is what one process was granted and has returned of one window of a scope. The store is right; what a
// process may have forgotten is found by it.
type spendLedger struct {
	taken, returned spendSum
	// answered is what it was granted and knows of, since it began to draw on the scope; before is what it had charged by
	// then. Last is what the window was charged with at the last answer.
	answered, before, last spendSum
}

// A spendSum is requests and output tokens.
type spendSum [2]int64

func (s spendSum) plus(more spendSum) spendSum  { return spendSum{s[0] + more[0], s[1] + more[1]} }
func (s spendSum) minus(less spendSum) spendSum { return spendSum{s[0] - less[0], s[1] - less[1]} }
func (s spendSum) atMost(most spendSum) bool    { return s[0] <= most[0] && s[1] <= most[1] }

func sumOf(t watchdog.Totals) spendSum { return spendSum{t.Requests, t.OutputTokens} }

// A spendWindow is a window of a scope; the start of one that counts for ever is zero.
type spendWindow struct {
	scope string
	name  string
}

// A spendConnection is how one process reaches the store, until it is killed.
type spendConnection struct {
	memory  *watchdog.Memory
	fault   spendFault
	dead    bool
	ledgers map[spendWindow]*spendLedger
	slices  map[string]spendWindow
	doubt   bool // something could not be returned
	faulty  bool // it was not always well
	scopes  []string
}

func (c *spendConnection) ledger(w spendWindow) *spendLedger {
	if c.ledgers[w] == nil {
		c.ledgers[w] = &spendLedger{}
	}
	return c.ledgers[w]
}

// before is what happens to a call before it is carried out.
func (c *spendConnection) before(ctx context.Context) error {
	switch {
	case c.dead, c.fault == spendFails:
		return errSpendStore
	case c.fault == spendSlow:
		time.Sleep(time.Second)
	case c.fault == spendLate:
		time.Sleep(6 * time.Second)
		if c.dead {
			return errSpendStore
		}
	}
	return nil
}

func (c *spendConnection) Take(ctx context.Context, s watchdog.Slice) (watchdog.Grant, error) {
	if err := c.before(ctx); err != nil {
		return watchdog.Grant{}, err
	}
	name, _ := s.WindowAt(time.Now())
	w, again := c.slices[s.ID]
	if !again {
		w = spendWindow{s.Scope, name}
	}
	g, err := c.memory.Take(context.WithoutCancel(ctx), s)
	if err != nil {
		return g, err
	}
	l := c.ledger(w)
	if g.Fits && !again {
		l.taken = l.taken.plus(sumOf(g.Granted))
		c.slices[s.ID] = w
		c.scopes = append(c.scopes, s.Scope)
	}
	if c.fault == spendLost {
		return watchdog.Grant{}, errSpendStore
	}
	if g.Fits {
		l.answered = l.answered.plus(sumOf(g.Granted))
	}
	l.last = sumOf(g.Charged)
	return g, nil
}

func (c *spendConnection) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	if err := c.before(ctx); err != nil {
		c.doubt = true
		return err
	}
	l := c.ledger(c.slices[id])
	l.returned = l.returned.plus(sumOf(unused))
	if err := c.memory.Return(context.WithoutCancel(ctx), id, unused); err != nil || c.fault == spendLost {
		return errors.Join(err, errSpendStore)
	}
	return nil
}
