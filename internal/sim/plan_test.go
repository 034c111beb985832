package sim_test

import (
	"time"
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
