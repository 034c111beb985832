package sim_test

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
)

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
