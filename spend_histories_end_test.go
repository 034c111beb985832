package watchdog_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/seed62658d38/watchdog"
)

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
