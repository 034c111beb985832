package drive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen"
	"github.com/seed62658d38/watchdog/oracle/history"
)

func (w *world) actOnCharge(op history.Op, p *process, rng *rand.Rand) {
	g := guardOf(p, rng)
	switch op {
	case history.Admit:
		w.admit(g, w.drawKey(rng), drawAmount(rng), rng)
	case history.AdmitAgain:
		w.admitAgain(g, rng)
	case history.Settle, history.Void:
		w.finish(g, op == history.Void, rng)
	case history.ExtendSpend:
		w.extendSpend(g, rng)
	case history.SpendFault:
		w.spendFault(p, rng)
	case history.SpendPass:
		w.spendPass(rng)
	case history.SpendSync:
		w.sync(g, rng)
	}
}

func (w *world) drawKey(rng *rand.Rand) string {
	if chance(rng, 2) {
		return ""
	}
	return w.label("key")
}

// drawAmount draws what a call may use at most.
func drawAmount(rng *rand.Rand) (a watchdog.Amount) {
	size := func() int64 {
		if chance(rng, 2) {
			return 0
		}
		return rng.Int64N(1 << (1 + rng.IntN(10)))
	}
	a = watchdog.Amount{InputTokens: size(), OutputTokens: size(), Requests: 1}
	if chance(rng, 3) {
		a.Cost = watchdog.Money{Micros: size() * 4, Currency: "EUR"}
	}
	if chance(rng, 3) {
		a.ToolCalls, a.Tool = 1, pick(rng, "grep", "rm", "")
	}
	if chance(rng, 3) {
		a.Turns = 1
	}
	if chance(rng, 60) {
		a.Cost.Currency = "USD"
	}
	return a
}

// admit admits a call, or several that are made one after the other.
func (w *world) admit(g *guard, key string, most watchdog.Amount, rng *rand.Rand) {
	wd, n := g.wd, 1
	if chance(rng, 12) {
		n, key = 20, ""
	}
	for range n {
		c := &charged{name: w.label(g.name + " charge"), most: most}
		got := false
		answered := w.callThen(fmt.Sprintf("Admit %s %q %+v", c.name, key, most), func() string {
			charge, err := wd.Admit(context.Background(), key, most)
			if err == nil {
				c.c, got = charge, true
			}
			return errText(err)
		}, func() {
			if got {
				g.charges = append(g.charges, c)
			}
		})
		if !answered { // who of many that wait for a store is served first is left to chance
			return
		}
	}
}

// admitAgain admits a call under a key that was used before, by whatever run.
func (w *world) admitAgain(g *guard, rng *rand.Rand) {
	key := "key:1"
	if n := w.labels["key"]; n > 0 {
		key = fmt.Sprintf("key:%d", 1+rng.IntN(n))
	}
	w.admit(g, key, drawAmount(rng), rng)
}

// finish settles or voids a charge, also one that was before, and of a run that is closed.
func (w *world) finish(g *guard, void bool, rng *rand.Rand) {
	for _, other := range g.proc.w.closed {
		if chance(rng, 6) && len(other.charges) > 0 && !other.proc.conn.isCut() {
			g = other
		}
	}
	if len(g.charges) == 0 {
		w.admit(g, w.drawKey(rng), drawAmount(rng), rng)
	}
	if len(g.charges) == 0 {
		return
	}
	c := g.charges[rng.IntN(len(g.charges))]
	if chance(rng, 2) {
		c = g.charges[len(g.charges)-1]
	}
	if void {
		w.call("Void "+c.name, func() string { return errText(c.c.Void()) })
		return
	}
	used := drawUsed(rng, c.most)
	w.call(fmt.Sprintf("Settle %s %+v", c.name, used), func() string { return errText(c.c.Settle(used)) })
}

// drawUsed draws what a call has used of what it may.
func drawUsed(rng *rand.Rand, most watchdog.Amount) watchdog.Amount {
	used := most
	switch rng.IntN(4) {
	case 0:
		used.InputTokens, used.OutputTokens = most.InputTokens/2, most.OutputTokens/3
	case 1:
		used.OutputTokens += rng.Int64N(50)
		used.Cost.Micros += int64(len(most.Cost.Currency)) * rng.Int64N(20)
	case 2:
		used.Cost.Micros /= 2
	}
	used.Result = pick(rng, "", watchdog.ResultOK, watchdog.ResultError, watchdog.ResultError, watchdog.ResultRetry)
	return used
}

func (w *world) extendSpend(g *guard, rng *rand.Rand) {
	var more watchdog.Spend
	for range 1 + rng.IntN(2) {
		switch rng.IntN(6) {
		case 0:
			more.Requests = 1 + rng.Int64N(20)
		case 1:
			more.OutputTokens = 1 + rng.Int64N(500)
		case 2:
			more.Tokens = 1 + rng.Int64N(500)
		case 3:
			more.Cost = watchdog.Money{Micros: 1 + rng.Int64N(900), Currency: "EUR"}
		case 4:
			more.ToolCalls = 1 + rng.Int64N(9)
		default:
			more = ofBudget(&g.budget.Spend)
		}
	}
	wd := g.wd
	w.call(fmt.Sprintf("ExtendSpend %s %+v", g.name, more), func() string { return errText(wd.ExtendSpend(more)) })
}

// ofBudget is a little of a limit that there is.
func ofBudget(s *watchdog.Spend) (more watchdog.Spend) {
	switch {
	case s.Requests > 0:
		more.Requests = 7
	case s.Tokens > 0:
		more.Tokens = 90
	case s.OutputTokens > 0:
		more.OutputTokens = 90
	case s.InputTokens > 0:
		more.InputTokens = 90
	default:
		more.Turns = 2
	}
	return more
}

// spendFault has something be wrong with what the process charges scopes with.
func (w *world) spendFault(p *process, rng *rand.Rand) {
	f := pick(rng, well, well, fails, fails, hangs, panics, loses, slow, noReads, noWrites)
	if f == hangs && w.setup.pollOnly { // whether what it says too late is heard is left to chance
		f = slow
	}
	calls, until := w.drawSpan(rng)
	w.say(history.Did, "spend fault %d of %s for %d calls, until %v", f, p.name, calls, until)
	p.conn.spend.spendBreak(f, calls, until)
	if chance(rng, 2) {
		w.admit(guardOf(p, rng), "", drawAmount(rng), rng)
	}
}

// spendPass lets time pass to the end of an hour, at which scopes count anew, or a little.
func (w *world) spendPass(rng *rand.Rand) {
	d := w.now().Truncate(time.Hour).Add(time.Hour).Sub(w.now()) + pick(rng, 0, -1, time.Second)
	if w.setup.period == watchdog.PeriodNone || chance(rng, 2) {
		d = pick(rng, time.Second, 5*time.Second, 40*time.Second)
	}
	w.say(history.Did, "pass %v while calls are open", d)
	w.pass(d)
}
