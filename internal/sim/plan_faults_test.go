package sim_test

import (
	"fmt"
	"time"
)

// faults are what goes wrong.
var faults = []kind{
	{5, (*plan).killHost}, {5, (*plan).stopHost}, {6, (*plan).cutHost}, {3, (*plan).cutSweeper},
	{3, (*plan).stopSweeper}, {2, (*plan).endSweeper}, {4, (*plan).breakDatabase}, {5, (*plan).loseAnswer},
	{5, (*plan).beLate}, {6, (*plan).lockRow}, {4, (*plan).lockLease}, {4, (*plan).refuseRow}, {2, (*plan).deleteRow},
	{3, (*plan).expireLease}, {2, (*plan).comeBackOlder}, {3, (*plan).stepClock}, {3, (*plan).setHostClock},
	{5, (*plan).wakeUnwritten}, {4, (*plan).wakeAfterLate}, {3, (*plan).cutWhileLocked},
}

func (p *plan) killHost() bool { return p.onHost("is killed", p.w.kill) }

func (p *plan) stopHost() bool {
	d := p.length()
	return p.onHost(fmt.Sprintf("is stopped for %v", d), func(h *host) { p.w.stopProcess(h.link, d) })
}

func (p *plan) cutHost() bool {
	d, m := p.length(), mode(1+p.w.rng.IntN(int(modes)-2)) // only a database is read-only
	return p.onHost(fmt.Sprintf("has a database that %v for %v", m, d), func(h *host) { p.w.setMode(h.link, m, d) })
}

func (p *plan) cutSweeper() bool {
	d, m := p.length(), mode(1+p.w.rng.IntN(int(modes)-2))
	return p.onSweeper(fmt.Sprintf("has a database that %v for %v", m, d),
		func(s *sweeper) { p.w.setMode(s.link, m, d) })
}

func (p *plan) stopSweeper() bool {
	d := p.length()
	return p.onSweeper(fmt.Sprintf("is stopped for %v", d), func(s *sweeper) { p.w.stopProcess(s.link, d) })
}

func (p *plan) endSweeper() bool {
	kill := p.w.rng.IntN(2) == 0
	return p.onSweeper(fmt.Sprintf("ends, killed: %v", kill), func(s *sweeper) { p.w.endSweeper(s, kill) })
}

func (p *plan) breakDatabase() bool {
	d, m := p.length(), mode(1+p.w.rng.IntN(int(modes)-1))
	p.w.stepf("the database %v for %v", m, d)
	p.w.setDatabase(m, d)
	return true
}

// oneWrite has the next write of some kind go wrong.
func (p *plan) oneWrite(what string, do func(l *link, kind string)) bool {
	l, ok := one(p, p.links())
	kinds := []string{"write", "Freshen", "End", "Attach", "RenewLease", "Transact"}
	if ok && l.host == nil {
		kinds = []string{"write", "Cancel", "Claim", "ExpireLease", "Warn"}
	}
	kind := kinds[p.w.rng.IntN(len(kinds))]
	if ok {
		p.w.stepf("the next %s of %s %s", kind, l.name, what)
		p.w.mu.Lock()
		do(l, kind)
		p.w.disturb()
		p.w.mu.Unlock()
	}
	return ok
}

func (p *plan) loseAnswer() bool {
	return p.oneWrite("loses its answer", func(l *link, kind string) { l.losing = kind })
}

func (p *plan) beLate() bool {
	return p.oneWrite("takes effect late", func(l *link, kind string) { l.lating = kind })
}

// wakeAfterLate has the write that says that a run is silent take effect late, and wakes the run up meanwhile.
func (p *plan) wakeAfterLate() bool {
	d := time.Duration(p.w.rng.Int64N(int64(6 * promise)))
	return p.onOne(fmt.Sprintf("is silent for %v, and wakes up before that is written", d), func(a *attachment) {
		a.busy.Store(false)
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		a.host.link.lating = "Freshen"
		p.w.disturb()
		p.w.heal(d, func() { go p.w.signal(a, false) })
	})
}

func (p *plan) lockRow() bool { return p.stick(false, "is locked") }

func (p *plan) refuseRow() bool { return p.stick(true, "is refused") }

func (p *plan) stick(refuse bool, what string) bool {
	r, ok := one(p, p.w.runs)
	d := p.length()
	if ok {
		p.w.stepf("the row of run %s %s for %v", r.id, what, d)
		p.w.setStuck(r, refuse, d)
	}
	return ok
}

// cutWhileLocked cuts a process off for so long that its lease expires, while the row of one of its runs is locked and
// so stays in the lease.
func (p *plan) cutWhileLocked() bool {
	d := observing + time.Duration(p.w.rng.Int64N(int64(observing)))
	return p.onOne(fmt.Sprintf("has its row locked, and its host a database that fails, for %v", d), func(a *attachment) {
		p.w.setStuck(a.run, false, d+2*promise)
		p.w.setMode(a.host.link, fails, d)
	})
}

// wakeUnwritten has a silent run wake up while its row cannot be written, for longer than it may be silent.
func (p *plan) wakeUnwritten() bool {
	refuse := p.w.rng.IntN(2) == 0
	d := time.Duration(p.w.rng.Int64N(int64(maxFault)))
	return p.onOne(fmt.Sprintf("wakes up, its row cannot be written for %v, refused: %v", d, refuse), func(a *attachment) {
		p.w.setStuck(a.run, refuse, d)
		a.busy.Store(true)
	})
}

func (p *plan) lockLease() bool {
	h, ok := one(p, p.w.hosts)
	d := p.length()
	if ok && h.lease != "" {
		p.w.stepf("the lease of host %s is locked for %v", h.name, d)
		p.w.lockLease(h.lease, d)
	}
	return ok
}

func (p *plan) deleteRow() bool {
	r, ok := one(p, p.w.runs)
	if ok {
		p.w.stepf("the row of run %s is deleted", r.id)
		p.w.deleteRow(r)
	}
	return ok
}

func (p *plan) expireLease() bool {
	h, ok := one(p, p.w.hosts)
	if ok && h.lease != "" {
		p.w.stepf("the lease of host %s is expired by hand", h.name)
		p.w.expireLease(h)
	}
	return ok
}

// comeBackOlder saves the database, and has it come back later as it was.
func (p *plan) comeBackOlder() bool {
	if p.w.snapshot == nil || p.w.rng.IntN(2) == 0 {
		p.w.stepf("the database is saved")
		p.w.save()
		return true
	}
	p.w.stepf("the database comes back as it was saved")
	p.w.restore()
	return true
}

func (p *plan) stepClock() bool {
	d := time.Duration(p.w.rng.Int64N(int64(2*time.Minute))) - 20*time.Second
	p.w.stepf("the clock of the database is set by %v", d)
	p.w.stepClock(d)
	return true
}

func (p *plan) setHostClock() bool {
	d := p.w.aside(maxAhead)
	return p.onHost(fmt.Sprintf("has its clock set by %v", d), func(h *host) {
		if h.clock != nil {
			h.clock.set(d)
		}
	})
}
