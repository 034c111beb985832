package sim_test

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A plan is the schedule of a seed. Each seed has only some of the kinds of steps, so that some see a fleet with one
// kind of fault, some with many, and some with none.
type plan struct {
	w     *world
	steps int
	kinds []kind
	sum   int
}

// A kind is a kind of step. Its do takes one, or reports that there is nothing to take it on.
type kind struct {
	weight int
	do     func(p *plan) bool
}

// newPlan makes the schedule.
func (w *world) newPlan() *plan {
	p := &plan{w: w, steps: 40 + w.rng.IntN(60)}
	p.kinds = append(p.kinds, work...)
	often := w.rng.IntN(3) // of few kinds, or of many
	for _, k := range faults {
		if w.rng.IntN(7) < 1+2*often {
			p.kinds = append(p.kinds, k)
		}
	}
	for _, k := range p.kinds {
		p.sum += k.weight
	}
	for range 1 + w.rng.IntN(2) {
		p.newSweeper()
		p.shift()
	}
	for range 2 {
		w.startHost()
		p.shift()
	}
	return p
}

// shift lets a moment go by, so that no two processes start at one instant: what they do then has no order.
func (p *plan) shift() { time.Sleep(time.Duration(1 + p.w.rng.IntN(int(time.Millisecond)))) }

// step takes one step.
func (p *plan) step() {
	for range 100 {
		left := p.w.rng.IntN(p.sum)
		for _, k := range p.kinds {
			if left -= k.weight; left < 0 {
				if k.do(p) {
					return
				}
				break
			}
		}
	}
}

func one[E any](p *plan, all []E) (e E, ok bool) {
	if len(all) == 0 {
		return e, false
	}
	return all[p.w.rng.IntN(len(all))], true
}

func (p *plan) hosts() (all []*host) {
	for _, h := range p.w.hosts {
		if !h.gone {
			all = append(all, h)
		}
	}
	return all
}

// ready are the hosts that are not stopped.
func (p *plan) ready() (all []*host) {
	for _, h := range p.hosts() {
		if h.link.stopped == nil {
			all = append(all, h)
		}
	}
	return all
}

func (p *plan) sweepers() (all []*sweeper) {
	for _, s := range p.w.sweepers {
		if !s.gone {
			all = append(all, s)
		}
	}
	return all
}

// attachments are those of runs that have not ended, on hosts that are not stopped.
func (p *plan) attachments() (all []*attachment) {
	for _, a := range p.w.attachments() {
		if !a.closed && !a.host.gone && a.host.link.stopped == nil && a.wd.Context().Err() == nil {
			all = append(all, a)
		}
	}
	return all
}

// links are the ways to the database of all processes.
func (p *plan) links() (all []*link) {
	for _, h := range p.hosts() {
		all = append(all, h.link)
	}
	for _, s := range p.sweepers() {
		all = append(all, s.link)
	}
	return all
}

// length is how long a fault lasts.
func (p *plan) length() time.Duration {
	most := []time.Duration{promise / 2, 2 * promise, 5 * promise, maxFault}[p.w.rng.IntN(4)]
	return time.Duration(1 + p.w.rng.Int64N(int64(most)))
}

// onOne does something with one run.
func (p *plan) onOne(what string, do func(a *attachment)) bool {
	a, ok := one(p, p.attachments())
	if ok {
		p.w.stepf("run %s on host %s %s", a.run.id, a.host.name, what)
		do(a)
	}
	return ok
}

func (p *plan) onHost(what string, do func(h *host)) bool {
	h, ok := one(p, p.hosts())
	if ok {
		p.w.stepf("host %s %s", h.name, what)
		do(h)
	}
	return ok
}

func (p *plan) onSweeper(what string, do func(s *sweeper)) bool {
	s, ok := one(p, p.sweepers())
	if ok {
		p.w.stepf("sweeper %s %s", s.name, what)
		do(s)
	}
	return ok
}

// work is what happens without any fault.
var work = []kind{
	{2, (*plan).newHost}, {8, (*plan).newRun}, {6, (*plan).attachAgain}, {4, (*plan).resume}, {6, (*plan).signalOnce},
	{5, (*plan).fallSilent}, {3, (*plan).wakeUp}, {4, (*plan).holdOrRelease}, {3, (*plan).closeOne},
	{3, (*plan).completeOne}, {1, (*plan).shutOne}, {1, (*plan).newSweeperStep},
}

func (p *plan) newHost() bool {
	if len(p.hosts()) >= 4 {
		return false
	}
	p.w.stepf("host %s starts", p.w.startHost().name)
	return true
}

func (p *plan) newSweeper() *sweeper {
	interval := 2*time.Second + time.Duration(p.w.rng.Int64N(int64(3*time.Second)))
	grace := []time.Duration{0, 0, 2 * time.Second}[p.w.rng.IntN(3)]
	minAge := []time.Duration{watchdog.None, 3 * time.Second}[p.w.rng.IntN(2)]
	return p.w.startSweeper(interval, grace, minAge, p.w.rng.IntN(2) == 0)
}

func (p *plan) newSweeperStep() bool {
	if len(p.sweepers()) >= 3 {
		return false
	}
	s := p.newSweeper()
	p.w.stepf("sweeper %s starts, with an interval of %v and a grace of %v", s.name, s.interval, s.grace)
	return true
}

func (p *plan) newRun() bool {
	h, ok := one(p, p.ready())
	if !ok || len(p.w.runs) >= 8 {
		return false
	}
	r := &run{
		id:        fmt.Sprintf("r%d", len(p.w.runs)+1),
		startedAt: h.now(),
		threshold: []time.Duration{0, 0, 5 * time.Second, 20 * time.Second, watchdog.NoLimit}[p.w.rng.IntN(5)],
		wallClock: []time.Duration{0, 0, 20 * time.Second, time.Minute}[p.w.rng.IntN(4)],
	}
	if len(p.w.runs)%3 == 2 {
		r.idle = 25 * time.Second
	}
	p.w.mu.Lock()
	p.w.runs = append(p.w.runs, r)
	p.w.mu.Unlock()
	mood := p.w.rng.IntN(4)
	p.w.stepf("host %s begins run %s, mood %d, with a threshold of %v and a budget of %v", h.name, r.id, mood, r.threshold,
		r.wallClock)
	p.w.attach(h, r, false, mood)
	return true
}

func (p *plan) attachAgain() bool { return p.attach(false) }

func (p *plan) resume() bool { return p.attach(true) }

// attach attaches a run to a host that does not run it, also if another does.
func (p *plan) attach(resume bool) bool {
	h, there := one(p, p.ready())
	r, ok := one(p, p.w.runs)
	if !ok || !there {
		return false
	}
	p.w.mu.Lock()
	taken := h.attaching[r]
	p.w.mu.Unlock()
	for _, a := range p.w.attachments() {
		taken = taken || a.host == h && a.run == r && !a.closed
	}
	if taken {
		return false
	}
	mood := p.w.rng.IntN(4)
	p.w.stepf("host %s attaches to run %s, mood %d, resume %v", h.name, r.id, mood, resume)
	p.w.attach(h, r, resume, mood)
	return true
}

func (p *plan) signalOnce() bool {
	progress := p.w.rng.IntN(2) == 0
	return p.onOne("signals", func(a *attachment) { p.w.signal(a, progress) })
}

func (p *plan) fallSilent() bool {
	return p.onOne("falls silent", func(a *attachment) { a.busy.Store(false) })
}

func (p *plan) wakeUp() bool {
	return p.onOne("is busy", func(a *attachment) { a.busy.Store(true) })
}

func (p *plan) holdOrRelease() bool {
	return p.onOne("opens or closes a hold", func(a *attachment) { p.w.hold(a) })
}

func (p *plan) closeOne() bool { return p.onOne("is closed", p.w.close) }

func (p *plan) completeOne() bool { return p.onOne("completes", p.w.complete) }

func (p *plan) shutOne() bool {
	h, ok := one(p, p.ready())
	if ok && len(p.hosts()) > 1 {
		p.w.stepf("host %s shuts down", h.name)
		p.w.shutDown(h)
	}
	return ok
}

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
	return p.onHost(fmt.Sprintf("has a database that %v for %v", m, d), func(h *host) { p.w.set(&h.link.weather, m, d, h.link.cut) })
}

func (p *plan) cutSweeper() bool {
	d, m := p.length(), mode(1+p.w.rng.IntN(int(modes)-2))
	return p.onSweeper(fmt.Sprintf("has a database that %v for %v", m, d),
		func(s *sweeper) { p.w.set(&s.link.weather, m, d, s.link.cut) })
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
	p.w.set(&p.w.weather, m, d, p.w.cutAll)
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
		p.w.set(&a.host.link.weather, fails, d, a.host.link.cut)
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
