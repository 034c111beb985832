package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
)

// spendSteps is how many steps a history of spending has, spendBubble how many histories share a bubble.
const (
	spendSteps  = 15
	spendBubble = 50
)

// TestSpendHistories has two processes spend in random histories of runs that share a scope, beside a model that is a
// list and a sum. A failure names the seed; -history replays it.
func TestSpendHistories(t *testing.T) {
	if *historySeed >= 0 {
		synctest.Test(t, func(t *testing.T) { replaySpend(t, uint64(*historySeed)) })
		return
	}
	inShards(t, spendBubble, func(t *testing.T, from uint64) {
		synctest.Test(t, func(t *testing.T) { spendFrom(t, from) })
	})
}

func spendFrom(t *testing.T, from uint64) {
	for seed := from; seed < from+spendBubble; seed++ {
		if flaw := newSpendHistory(seed, false).live(); flaw != "" {
			t.Errorf("seed %d: %s", seed, flaw)
			replaySpend(t, seed)
			return
		}
	}
}

func replaySpend(t *testing.T, seed uint64) {
	h := newSpendHistory(seed, true)
	h.live()
	h.report(t, seed)
}

// A spendHistory is two processes, the runs that they attach to, and everything that was ever charged.
type spendHistory struct {
	history
	memory    *watchdog.Memory
	processes [2]*spendProcess
	period    watchdog.Period
	shared    spendSum
	limits    map[string]spendSum // of the runs, with what they were given
	retired   map[string]bool     // runs that have ended
	given     map[string]int64    // that, in requests
	stands    map[string]spendStand
	charges   []*modelCharge
	dead      []*spendProcess
	late      map[string]bool // windows of which something was settled when they were over
	unpaid    []unpaidCall
	began     time.Time
	keys      int
	runs      int
	looks     int
	window    struct { // of the shared scope, as it was looked at last
		name     string
		at, ends time.Time
	}
	beyond   bool // calls may use more than was admitted
	observed bool
	pollOnly bool
	waits    int
	reserve  int64 // of each run's requests
	kept     int64 // of those of the shared scope
	warnAt   []float64
}

// A spendProcess is one life of a process, until it is killed.
type spendProcess struct {
	name       string
	connection *spendConnection
	runs       []*spendRun
	own        map[string]string // the scopes of the runs' own limits
	leaky      bool              // a run was closed while the store was not well
}

func newSpendHistory(seed uint64, logs bool) *spendHistory {
	time.Sleep(24*time.Hour - time.Since(time.Now().Truncate(24*time.Hour))) // at midnight, also when it is replayed
	h := &spendHistory{
		history: history{rng: rand.New(rand.NewPCG(seed, 19)), logs: logs}, memory: &watchdog.Memory{},
		limits: map[string]spendSum{}, retired: map[string]bool{}, given: map[string]int64{},
		stands: map[string]spendStand{}, late: map[string]bool{}, began: time.Now(),
	}
	h.period = [...]watchdog.Period{watchdog.PeriodNone, watchdog.PeriodHour}[h.rng.IntN(2)]
	h.shared = spendSum{h.size(), h.size()}
	h.beyond, h.observed, h.pollOnly = h.chance(4), h.chance(8), h.chance(3)
	h.waits = h.rng.IntN(3)
	if h.chance(2) {
		h.reserve = 1 + h.rng.Int64N(3)
	}
	if h.chance(2) {
		h.kept = 1 + h.rng.Int64N(3)
	}
	h.warnAt = [...][]float64{{}, {0.5}, {0.1, 0.8, 0.95}}[h.rng.IntN(3)]
	for i := range h.processes {
		h.processes[i] = h.newProcess(string(rune('A' + i)))
	}
	h.say("shared %v each %q, beyond %v, observed %v, poll-only %v, %d waits, reserves %d and %d, warn at %v", h.shared,
		h.period, h.beyond, h.observed, h.pollOnly, h.waits, h.reserve, h.kept, h.warnAt)
	return h
}

// size is that of a limit: some are of few calls, some of many slices.
func (h *spendHistory) size() int64 { return 4 + h.rng.Int64N(1<<h.rng.IntN(10)+1) }

func (h *spendHistory) say(format string, args ...any) {
	if h.logs {
		h.history.say("%s "+format, append([]any{time.Now().Format("15:04:05")}, args...)...)
	}
}

func (h *spendHistory) newProcess(name string) *spendProcess {
	return &spendProcess{name: name, own: map[string]string{}, connection: &spendConnection{
		memory: h.memory, ledgers: map[spendWindow]*spendLedger{}, slices: map[string]spendWindow{},
	}}
}

// live returns what was wrong first, nothing if all was well.
func (h *spendHistory) live() string {
	for range spendSteps {
		h.step()
		synctest.Wait()
		h.check()
		if h.flaw != "" {
			break
		}
	}
	h.end()
	return h.flaw
}

// step is one thing that happens.
func (h *spendHistory) step() {
	p := h.processes[h.rng.IntN(2)]
	if len(p.runs) == 0 {
		h.attach(p)
		return
	}
	r := p.runs[h.rng.IntN(len(p.runs))]
	if h.askedAll(p); slices.Contains(p.runs, r) {
		h.act(p, r)
	}
}

func (h *spendHistory) askedAll(p *spendProcess) {
	for _, one := range slices.Clone(p.runs) {
		h.asked(one)
	}
}

// act is something that a process does with a run, or that happens to it.
func (h *spendHistory) act(p *spendProcess, r *spendRun) {
	switch n := h.rng.IntN(40); {
	case n < 1 && len(p.runs) < 2:
		h.attach(p)
	case n < 2:
		h.closeFrom(r, 0)
	case n < 3:
		h.kill(p)
	case n < 5:
		h.fault(p)
	case n < 7:
		h.pass()
	case n < 9:
		h.layer(r)
	case n < 10 && len(r.layers) > 1:
		h.closeFrom(r, 1+h.rng.IntN(len(r.layers)-1))
	default:
		h.spend(p, r, n)
	}
}

// spend is something that a process does with what a run may spend.
func (h *spendHistory) spend(p *spendProcess, r *spendRun, n int) {
	switch {
	case n < 11:
		h.extend(r)
	case n < 13:
		h.again(r)
	case n < 25:
		h.admit(r, h.newKey(), h.amount())
	case n < 27:
		h.burst(r)
	default:
		h.finish(p)
	}
}

func (h *spendHistory) amount() spendSum {
	most := [...]int64{2, 5, 40}[h.rng.IntN(3)]
	return spendSum{h.rng.Int64N(most), h.rng.Int64N(most)}
}

func (h *spendHistory) newKey() string {
	if h.chance(2) {
		return ""
	}
	h.keys++
	return fmt.Sprint("key ", h.keys)
}

// attach attaches to a run, which the other process may have, too.
func (h *spendHistory) attach(p *spendProcess) {
	id := fmt.Sprint("run ", h.rng.IntN(h.runs+1))
	if h.retired[id] || slices.ContainsFunc(p.runs, func(r *spendRun) bool { return r.id == id }) {
		id = fmt.Sprint("run ", h.runs)
	}
	if _, known := h.limits[id]; !known {
		h.runs++
		h.limits[id] = spendSum{h.size(), h.size()}
	}
	h.attachTo(p, id)
}

// budgetOf is a budget of requests and tokens. What is given later is in the limit, not in the budget.
func (h *spendHistory) budgetOf(limits spendSum, given int64) watchdog.Budget {
	waits := make([]watchdog.DirectiveKind, h.waits, h.waits+1)
	for i := range waits {
		waits[i] = watchdog.DirectiveWait
	}
	waits = append(waits, watchdog.DirectiveCancel)
	return watchdog.Budget{
		WallClock: watchdog.NoLimit,
		Spend: watchdog.Spend{
			Requests: limits[0] - given, OutputTokens: limits[1], WarnAt: h.warnAt,
			Reserve: watchdog.Totals{Requests: h.reserve},
		},
		Ladders: watchdog.Ladders{Requests: waits, Tokens: waits},
	}
}

func (h *spendHistory) attachTo(p *spendProcess, id string) {
	limits := h.limits[id]
	cfg := watchdog.Config{
		Store: h.memory, SpendStore: p.connection, Budget: h.budgetOf(limits, h.given[id]), Logger: quiet,
		PollOnly: h.pollOnly, ObserveOnly: h.observed,
		Scopes: []watchdog.SharedSpend{{Scope: sharedScope, Period: h.period, Spend: watchdog.Spend{
			Requests: h.shared[0], OutputTokens: h.shared[1], WarnAt: h.warnAt,
			Reserve: watchdog.Totals{Requests: h.kept},
		}}},
	}
	r := &spendRun{id: id, process: p, window: h.now()}
	cfg.OnWarning = r.warnings.add
	began, unwell := time.Now(), p.connection.unwell()
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: id, StartedAt: h.began}, cfg)
	h.say("%s attaches to %s with %v: %v", p.name, id, limits, err)
	if took := time.Since(began); took > 2*watchdog.DefaultRecordTimeout && !h.pollOnly {
		h.fail("New took %v", took)
	}
	if err != nil {
		p.leaky = true
		if !unwell {
			h.fail("attach: %v", err)
		}
		return
	}
	p.own[id] = record.EventID(id, strconv.FormatInt(h.began.Unix(), 10), "spend", record.Once+" ")
	r.layers = []*spendLayer{{wd: wd, limits: limits, reserve: h.reserve}}
	h.restored(r)
	p.runs = append(p.runs, r)
}

// A spendStand is where a run stands on its ladders, and how many of its warnings were given.
type spendStand struct {
	wrapped, scopeWrapped bool
	rungs, scopeRungs     spendSum
	warned, scopeWarned   spendSum
}

// restored puts the model of a run where others have left it. Ladders of a day begin again with the process.
func (h *spendHistory) restored(r *spendRun) {
	l, stands := r.layers[0], h.stands[r.id]
	l.wrapped, l.rungs, l.warned = stands.wrapped, stands.rungs, stands.warned
	if h.period == watchdog.PeriodNone {
		r.scopeWrapped, r.scopeRungs, r.scopeWarned = stands.scopeWrapped, stands.scopeRungs, stands.scopeWarned
	}
	synctest.Wait()
	h.asked(r)
}

// note keeps where the run stands for who attaches next.
func (h *spendHistory) note(r *spendRun) {
	l, stands := r.layers[0], h.stands[r.id]
	stands.wrapped, stands.scopeWrapped = stands.wrapped || l.wrapped, stands.scopeWrapped || r.scopeWrapped
	stands.rungs, stands.scopeRungs = stands.rungs.most(l.rungs), stands.scopeRungs.most(r.scopeRungs)
	stands.warned, stands.scopeWarned = stands.warned.most(l.warned), stands.scopeWarned.most(r.scopeWarned)
	h.stands[r.id] = stands
}

// closeFrom closes a layer and those inside it, or the run.
func (h *spendHistory) closeFrom(r *spendRun, from int) {
	h.say("%s closes %s from %d", r.process.name, r.id, from)
	for _, l := range slices.Backward(r.layers[from:]) {
		began, unwell := time.Now(), r.process.connection.unwell()
		switch err := l.wd.Close(); {
		case err == nil:
		case h.strict() || !unwell:
			h.fail("close: %v", err)
		default:
			h.unpaid = append(h.unpaid, unpaidCall{r.process, "Close again", l.wd.Close})
		}
		if took := time.Since(began); took > 2*watchdog.DefaultRecordTimeout && !h.pollOnly {
			h.fail("Close took %v", took)
		}
	}
	synctest.Wait()
	h.takeWarnings(r)
	if r.layers = r.layers[:from]; from > 0 {
		return
	}
	p := r.process
	p.leaky = p.leaky || p.connection.fault != spendWell || p.connection.dead
	p.runs = slices.DeleteFunc(p.runs, func(other *spendRun) bool { return other == r })
	h.freeze(r)
}

// freeze notes that what is open of a run stays charged as it is, and in the scope once no other run of the process
// draws on that.
func (h *spendHistory) freeze(r *spendRun) {
	for _, c := range h.charges {
		c.ownFrozen = c.ownFrozen || c.of == r
		c.sharedFrozen = c.sharedFrozen || c.of.process == r.process && len(r.process.runs) == 0
	}
	r.process.connection.each(func(w spendWindow, l *spendLedger) {
		if w.scope == r.process.own[r.id] || len(r.process.runs) == 0 {
			l.answered, l.before = spendSum{}, h.chargedBy(r.process, w)
		}
	})
}

// kill ends a process without a close. The close after it reaches nothing.
func (h *spendHistory) kill(p *spendProcess) {
	h.say("%s is killed", p.name)
	p.connection.set(func() { p.connection.dead = true })
	for len(p.runs) > 0 {
		h.closeFrom(p.runs[0], 0)
	}
	h.dead = append(h.dead, p)
	h.processes[slices.Index(h.processes[:], p)] = h.newProcess(p.name + "'")
}

func (h *spendHistory) fault(p *spendProcess) {
	f := spendWell
	if p.connection.fault == spendWell {
		f = spendFault(h.rng.IntN(int(spendFaults)))
	}
	h.say("%s: fault %d", p.name, f)
	p.connection.set(func() {
		p.connection.fault = f
		p.connection.faulty = p.connection.faulty || f != spendWell
	})
}

func (h *spendHistory) pass() {
	d := [...]time.Duration{time.Second, time.Minute, 20 * time.Minute, time.Hour}[h.rng.IntN(4)]
	h.say("pass %v", d)
	time.Sleep(d)
	synctest.Wait()
	for _, p := range h.processes {
		for _, r := range p.runs {
			h.takeWarnings(r)
			if now := h.now(); r.window != now {
				r.window, r.scopeRungs, r.scopeWarned, r.scopeWrapped = now, spendSum{}, spendSum{}, false
			}
		}
	}
}

// layer opens one inside the innermost, or many.
func (h *spendHistory) layer(r *spendRun) {
	n := 1
	if h.chance(20) {
		n = 26
	}
	for range min(n, 27-len(r.layers)) {
		l := &spendLayer{limits: spendSum{h.size(), h.size()}, reserve: h.reserve}
		wd, err := r.layers[len(r.layers)-1].wd.Layer("l", h.budgetOf(l.limits, 0))
		if err != nil {
			h.fail("layer: %v", err)
			return
		}
		l.wd = wd
		r.layers = append(r.layers, l)
	}
	h.say("%s: %s has %d layers", r.process.name, r.id, len(r.layers)-1)
}

// extend gives the run more requests, in every process that has it.
func (h *spendHistory) extend(r *spendRun) {
	more := 1 + h.rng.Int64N(5)
	err := r.layers[0].wd.ExtendSpend(watchdog.Spend{Requests: more})
	h.say("%s: extend %s by %d: %v", r.process.name, r.id, more, err)
	switch {
	case err != nil && !h.strict() && errors.Is(err, watchdog.ErrEnded):
		h.retire(r.id)
		return
	case err != nil:
		h.fail("extend: %v", err)
		return
	}
	h.limits[r.id] = h.limits[r.id].plus(spendSum{more, 0})
	h.given[r.id] += more
	stands := h.stands[r.id]
	stands.wrapped, stands.rungs[0], stands.warned[0] = false, 0, 0
	h.stands[r.id] = stands
	for _, p := range h.processes {
		for _, other := range p.runs {
			if other.id == r.id {
				h.given1(other, more)
			}
		}
	}
}

// given1 has a process learn that its run was given more.
func (h *spendHistory) given1(r *spendRun, more int64) {
	l := r.layers[0]
	l.limits[0] += more
	l.wrapped, l.rungs[0], l.warned[0] = false, 0, 0
	if _, err := l.wd.Sync(context.Background()); err != nil && h.strict() {
		h.fail("sync: %v", err)
	}
	h.asked(r)
}

// admit admits a call in the innermost layer.
func (h *spendHistory) admit(r *spendRun, key string, n spendSum) {
	l := r.layers[len(r.layers)-1]
	began, unwell := time.Now(), r.process.connection.unwell()
	c, err := l.wd.Admit(context.Background(), key, amountOf(n))
	h.say("%s: admit %v under %q in %s: %v", r.process.name, n, key, l.wd.ID(), err)
	if took := time.Since(began); took > watchdog.DefaultRecordTimeout && !h.pollOnly {
		h.fail("Admit took %v", took)
	}
	synctest.Wait()
	var refused *watchdog.Refused
	switch {
	case errors.As(err, &refused) && !h.observed:
		h.refused(r, n, refused)
	case err == nil:
		h.admitted(h.newCharge(r, c, key, n))
	case h.observed || !unwell:
		h.fail("%s: admit: %v", r.id, err)
	}
	h.asked(r)
}

func (h *spendHistory) admitted(c *modelCharge) {
	h.charges = append(h.charges, c)
	for _, l := range c.layers {
		if !h.observed && l.refuses(c.most) >= 0 {
			h.fail("%s: %v was admitted where it does not fit", l.wd.ID(), c.most)
		}
		l.open = l.open.plus(c.most)
	}
	if sum := h.usedOfScope(c.of.process); h.strict() && !h.turning() && c.most[0] > 0 && sum[0] > h.sharedUpTo(c.of, 0) {
		h.fail("%s: %v was admitted, which makes %v of the scope", c.of.id, c.most, sum)
	}
}

// again admits a call under a key that was used before in the same layer.
func (h *spendHistory) again(r *spendRun) {
	l := r.layers[len(r.layers)-1]
	for _, c := range h.charges {
		if c.key == "" || c.of != r || c.layers[len(c.layers)-1] != l || !h.chance(2) {
			continue
		}
		if c.voided {
			key := c.key
			c.key = ""
			h.admit(r, key, c.most)
			return
		}
		got, err := l.wd.Admit(context.Background(), c.key, amountOf(c.most))
		h.say("%s: admit %q again: %v", r.process.name, c.key, err)
		if err != nil || got != c.charge {
			h.fail("again: %v, the charge is %v", err, got == c.charge)
		}
		return
	}
}

// finish settles or voids a charge, mostly one that is open.
func (h *spendHistory) finish(p *spendProcess) {
	var some []*modelCharge
	for _, c := range h.charges {
		if c.of.process == p && (c.open || h.chance(20)) {
			some = append(some, c)
		}
	}
	if len(some) == 0 {
		return
	}
	c := some[h.rng.IntN(len(some))]
	if h.chance(4) {
		h.say("%s: void %v of %s", p.name, c.most, c.of.id)
		_ = c.charge.Void()
		synctest.Wait()
		h.finished(c, spendSum{}, c.open)
		return
	}
	used := spendSum{h.rng.Int64N(c.most[0] + 1), h.rng.Int64N(c.most[1] + 1)}
	if h.beyond && h.chance(3) {
		used = c.most.plus(h.amount())
	}
	h.say("%s: settle %v of %v of %s, open %v", p.name, used, c.most, c.of.id, c.open)
	h.settle(p, c, used)
	synctest.Wait()
	h.finished(c, used, false)
}

// finished notes it once: what is settled or voided again changes nothing.
func (h *spendHistory) finished(c *modelCharge, used spendSum, void bool) {
	if !c.open {
		return
	}
	c.open, c.voided = false, void
	for _, l := range c.layers {
		l.open, l.used = l.open.minus(c.most), l.used.plus(used)
	}
	if c.ownFrozen {
		h.chargeLate(c, &c.own, used, spendWindow{c.of.process.own[c.of.id], ""})
	} else {
		c.own = used
	}
	late := c.window != h.now()
	switch {
	case !c.sharedFrozen:
		c.shared = used
	case !late: // else it is charged nowhere
		h.chargeLate(c, &c.shared, used, spendWindow{sharedScope, c.window})
	}
	if late {
		h.late[c.window], h.late[h.now()] = true, true
	}
	if slices.Contains(c.of.process.runs, c.of) {
		layers := slices.Clone(c.of.layers)
		h.asked(c.of)
		h.overspent(c, used, layers)
		h.checkScopeWarned(c, used)
	}
}

// overspent expects that a layer was asked for something whose limit the call exceeded.
func (h *spendHistory) overspent(c *modelCharge, used spendSum, layers []*spendLayer) {
	for _, l := range c.layers {
		for kind, n := range used {
			if n > 0 && h.beyond && !h.observed && l.used[kind] > l.limits[kind] && l.asked == 0 &&
				slices.Contains(layers, l) && slices.Contains(c.of.layers, l) {
				h.fail("%s used %v of %v, and nothing was asked", l.wd.ID(), l.used, l.limits)
			}
		}
	}
}
