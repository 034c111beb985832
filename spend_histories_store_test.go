package watchdog_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
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
	// then. Last is what the window was charged with at the last answer, others the most that others had of it.
	answered, before, last, others spendSum
}

// A spendSum is requests and output tokens.
type spendSum [2]int64

func (s spendSum) plus(more spendSum) spendSum  { return spendSum{s[0] + more[0], s[1] + more[1]} }
func (s spendSum) minus(less spendSum) spendSum { return spendSum{s[0] - less[0], s[1] - less[1]} }
func (s spendSum) most(other spendSum) spendSum {
	return spendSum{max(s[0], other[0]), max(s[1], other[1])}
}
func (s spendSum) atMost(most spendSum) bool { return s[0] <= most[0] && s[1] <= most[1] }

func sumOf(t watchdog.Totals) spendSum { return spendSum{t.Requests, t.OutputTokens} }

// A spendWindow is a window of a scope; the start of one that counts for ever is zero.
type spendWindow struct {
	scope string
	name  string
}

// A spendConnection is how one process reaches the store, until it is killed.
type spendConnection struct {
	memory *watchdog.Memory

	mu      sync.Mutex
	fault   spendFault
	dead    bool
	ledgers map[spendWindow]*spendLedger
	slices  map[string]spendWindow
	late    map[string]bool // scopes of which something is settled that no run of the process draws on
	calls   int             // that are under way
	doubt   bool            // something could not be returned
	faulty  bool            // it was not always well
}

func (c *spendConnection) ledger(w spendWindow) *spendLedger {
	if c.ledgers[w] == nil {
		c.ledgers[w] = &spendLedger{}
	}
	return c.ledgers[w]
}

// read is the ledger of a window as it is now.
func (c *spendConnection) read(w spendWindow) spendLedger {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.ledger(w)
}

// each looks at the ledgers.
func (c *spendConnection) each(look func(w spendWindow, l *spendLedger)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w, l := range c.ledgers {
		look(w, l)
	}
}

// set changes what happens to the next calls.
func (c *spendConnection) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// unwell reports whether a call may fail, or wait for one that does.
func (c *spendConnection) unwell() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead || c.fault != spendWell && c.fault != spendSlow || c.calls > 0
}

// begin is what happens to a call before it is carried out. Unless it fails, the caller has to unlock mu.
func (c *spendConnection) begin() (fault spendFault, err error) {
	c.mu.Lock()
	fault = c.fault
	c.calls++
	if wait := map[spendFault]time.Duration{spendSlow: time.Second, spendLate: 6 * time.Second}[fault]; wait > 0 {
		c.mu.Unlock()
		time.Sleep(wait)
		c.mu.Lock()
	}
	if c.calls--; c.dead || fault == spendFails {
		c.mu.Unlock()
		return fault, errSpendStore
	}
	return fault, nil
}

func (c *spendConnection) Take(ctx context.Context, s watchdog.Slice) (watchdog.Grant, error) {
	c.mu.Lock()
	late := c.late[s.Scope]
	c.mu.Unlock()
	fault, err := c.begin()
	if err != nil {
		return watchdog.Grant{}, err
	}
	defer c.mu.Unlock()
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
	}
	if fault == spendLost {
		return watchdog.Grant{}, errSpendStore
	}
	if late { // the runs that are there do not hear of it
		return g, nil
	}
	if g.Fits {
		l.answered = l.answered.plus(sumOf(g.Granted))
	}
	l.last = sumOf(g.Charged)
	l.others = l.others.most(l.last.minus(l.answered))
	return g, nil
}

func (c *spendConnection) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	fault, err := c.begin()
	if err != nil {
		c.set(func() { c.doubt = true })
		return err
	}
	defer c.mu.Unlock()
	l := c.ledger(c.slices[id])
	l.returned = l.returned.plus(sumOf(unused))
	if err := c.memory.Return(context.WithoutCancel(ctx), id, unused); err != nil || fault == spendLost {
		return errors.Join(err, errSpendStore)
	}
	return nil
}

// burst has many goroutines admit and settle at once. What was asked for it is not modelled: a run that refused ends.
func (h *spendHistory) burst(r *spendRun) {
	l := r.layers[len(r.layers)-1]
	h.say("%s: burst in %s", r.process.name, l.wd.ID())
	all, most, settled := make([]watchdog.Charge, 8), make([]spendSum, 8), make([]bool, 8)
	var refused atomic.Bool
	var together sync.WaitGroup
	for i := range all {
		most[i], settled[i] = h.amount(), h.chance(2)
		together.Go(func() {
			var err error
			if all[i], err = l.wd.Admit(context.Background(), "", amountOf(most[i])); err != nil {
				refused.Store(true)
			} else if settled[i] {
				_ = all[i].Settle(amountOf(most[i]))
			}
		})
	}
	together.Wait()
	synctest.Wait()
	for i, charge := range all {
		if charge == (watchdog.Charge{}) {
			continue
		}
		c := h.newCharge(r, charge, "", most[i])
		c.open = !settled[i]
		h.charges = append(h.charges, c)
		for _, l := range c.layers {
			if settled[i] {
				l.used = l.used.plus(c.most)
			} else {
				l.open = l.open.plus(c.most)
			}
		}
	}
	if refused.Load() {
		h.retire(r.id)
		return
	}
	h.asked(r)
}

// end heals everything, closes all runs, and compares what the store has with what was charged.
func (h *spendHistory) end() {
	for _, p := range h.processes {
		p.connection.set(func() { p.connection.fault = spendWell })
		for len(p.runs) > 0 {
			h.closeFrom(p.runs[0], 0)
		}
		time.Sleep(time.Minute) // for what was late
		synctest.Wait()
		h.pay(p)
		healed := !p.leaky && !p.connection.doubt && (h.strict() || !p.connection.faulty)
		p.connection.each(func(w spendWindow, l *spendLedger) {
			used, held := h.chargedBy(p, w), l.taken.minus(l.returned)
			if healed && !h.late[w.name] && used != held { // of one that is late the rest may have been given back before
				h.fail("%s holds %v of %v after its end and has charged %v", p.name, held, w, used)
			}
		})
	}
}

// An unpaidCall is one that returned that the store has not charged something, to be made again.
type unpaidCall struct {
	process *spendProcess
	about   string
	call    func() error
}

// settle settles a charge. Only that of a closed run may fail, while the store does.
func (h *spendHistory) settle(p *spendProcess, c *modelCharge, used spendSum) {
	began, unwell := time.Now(), p.connection.unwell()
	late := map[string]bool{p.own[c.of.id]: c.ownFrozen, sharedScope: c.sharedFrozen}
	call := func() error {
		p.connection.set(func() { p.connection.late = late })
		defer p.connection.set(func() { p.connection.late = nil })
		return c.charge.Settle(amountOf(used))
	}
	switch err := call(); {
	case err == nil:
	case h.strict() || !unwell || slices.Contains(p.runs, c.of):
		h.fail("settle: %v", err)
	default:
		h.unpaid = append(h.unpaid, unpaidCall{p, "settle again", call})
	}
	if took := time.Since(began); took > watchdog.DefaultRecordTimeout && !h.pollOnly {
		h.fail("Settle took %v", took)
	}
}

// chargeLate notes what was used beyond what stays charged. Runs that draw on the scope again do not draw on that.
func (h *spendHistory) chargeLate(c *modelCharge, charged *spendSum, used spendSum, w spendWindow) {
	before := *charged
	*charged = charged.most(used)
	c.of.process.connection.set(func() {
		l := c.of.process.connection.ledger(w)
		l.before = l.before.plus(charged.minus(before))
	})
}

// pay makes the calls again that returned that the store has not charged something.
func (h *spendHistory) pay(p *spendProcess) {
	for _, c := range h.unpaid {
		if c.process != p {
			continue
		}
		if err := c.call(); err != nil {
			h.fail("%s: %v", c.about, err)
		}
		synctest.Wait()
	}
}
