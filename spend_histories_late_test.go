package watchdog_test

import (
	"slices"
	"testing/synctest"
	"time"

	"github.com/seed62658d38/watchdog"
)

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
