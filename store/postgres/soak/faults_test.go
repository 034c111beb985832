//go:build linux

package soak_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A member is a host or a sweeper with its proxy. After a kill another process takes its place.
type member struct {
	job    job
	folder string
	proxy  *proxy

	mu    sync.Mutex
	all   []*process
	tries int
}

// start starts the next process of the member.
func (m *member) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tries++
	j := m.job
	j.Name, j.Seed = fmt.Sprintf("%s-%d", j.Host, m.tries), j.Seed+uint64(m.tries)
	p, err := spawn(m.folder, j)
	if err == nil {
		m.all = append(m.all, p)
	}
	return err
}

// process returns the latest.
func (m *member) process() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[len(m.all)-1]
}

func (m *member) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.all {
		p.kill()
	}
}

// records returns what is known of all processes of the member.
func (m *member) records() (all []*processRecord, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.all {
		r, err := p.record()
		if err != nil {
			return nil, err
		}
		if len(r.entries) > 0 {
			all = append(all, &r)
		}
	}
	return all, nil
}

// A storm carries out faults.
type storm struct {
	t        *testing.T
	folder   string // of journals and logs
	began    time.Duration
	cluster  *cluster
	hosts    []*member
	sweepers []*member

	mu      sync.Mutex
	outages []span // in which not all can read the database
	locks   []span // in which a stranger has rows locked
	counts  map[string]int
}

// rage carries out the faults of a group, each at its time.
func (s *storm) rage(g group, faults []fault) {
	var targets sync.WaitGroup
	defer targets.Wait()
	byTarget := map[int][]fault{}
	for _, f := range faults {
		byTarget[f.target] = append(byTarget[f.target], f)
	}
	for _, own := range byTarget {
		targets.Go(func() {
			for _, f := range own {
				time.Sleep(s.began + f.at - sinceBoot())
				if f.must || sinceBoot() < s.began+*lengthFlag {
					s.carryOut(g, f)
				}
			}
		})
	}
}

func (s *storm) carryOut(g group, f fault) {
	from := sinceBoot()
	var err error
	switch g.name {
	case "host":
		err = s.hit(s.hosts[f.target], f)
	case "sweeper":
		err = s.hit(s.sweepers[f.target], f)
	case "server":
		err = s.hitServer(f)
	case "clock":
		err = s.step(f)
	default:
		err = s.lock(f)
	}
	what := f.name
	if g.targets > 1 {
		what = fmt.Sprintf("%s %d: %s", g.name, f.target+1, f.name)
	}
	if f.instant() {
		what += " by " + f.length.Round(time.Millisecond).String()
	}
	s.t.Logf("%8.3f to %8.3f s  %s", (from - s.began).Seconds(), (sinceBoot() - s.began).Seconds(), what)
	if err != nil {
		s.t.Errorf("%s: %v", what, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[f.name]++
}

// noteStray notes a stretch in which what the member wrote was lost, so that it was away for all others.
func (m *member) noteStray(s span) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.all {
		p.note(&p.away, s)
		p.note(&p.stray, s)
	}
}

// hit does something to a process, or to what is between it and the servers.
func (s *storm) hit(m *member, f fault) error {
	p, from := m.process(), sinceBoot()
	switch f.name {
	case stopped:
		p.signal(syscall.SIGSTOP)
		time.Sleep(f.length)
		p.signal(syscall.SIGCONT)
	case killed:
		p.kill()
		time.Sleep(f.length)
		return m.start()
	default:
		s.hitNetwork(m.proxy, f)
		switch f.name {
		case delayed:
			return nil
		case halfOpen: // it can write, by another connection, and has to notice that it does not hear any more
			p.note(&p.late, span{from, max(from+notices, sinceBoot()) + promise})
			return nil
		}
	}
	p.note(&p.away, span{from, sinceBoot()})
	return nil
}

func (s *storm) hitNetwork(p *proxy, f fault) {
	switch f.name {
	case delayed:
		p.setDelay(f.length / 40) // there and back less than a fifth of a promise
		defer p.setDelay(0)
	case cut:
		p.setCut(true)
		defer p.setCut(false)
	case withheld:
		defer p.hold()()
	case halfOpen:
		defer p.vanish()()
	case losing:
		p.setLosing(true)
		defer p.setLosing(false)
	}
	time.Sleep(f.length)
}

func (s *storm) hitServer(f fault) (err error) {
	from := sinceBoot()
	switch f.name {
	case splitBrain:
		return s.split(f)
	case promotion:
		err = s.cluster.promote()
	case standbyAway:
		err = s.cluster.loseStandby(f.length)
	default:
		err = s.cluster.restart(f.name == immediateStop, f.length)
	}
	s.note(&s.outages, from)
	if f.name == promotion && err == nil {
		err = s.cluster.follow()
	}
	return err
}

// split has two primaries for a while. Two hosts and a sweeper are left with the old one, which is then fenced: what
// they wrote meanwhile is lost.
func (s *storm) split(f fault) error {
	n := int(f.at / time.Millisecond)
	left := []*member{s.hosts[n%hostCount], s.hosts[(n+1)%hostCount], s.sweepers[n%sweeperCount]}
	from := sinceBoot()
	fence, err := s.cluster.split(func(p *proxy) bool {
		return slices.ContainsFunc(left, func(m *member) bool { return m.proxy == p })
	})
	s.note(&s.outages, from)
	if err != nil {
		return err
	}
	time.Sleep(f.length)
	err = fence()
	for _, m := range left {
		m.noteStray(span{from, sinceBoot()})
	}
	return errors.Join(err, s.cluster.follow())
}

// note adds a stretch that ends now to the outages or the locks.
func (s *storm) note(known *[]span, from time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*known = append(*known, span{from, sinceBoot()})
}

func (s *storm) step(f fault) error {
	if f.name == clockBack {
		return s.cluster.clocks.step(-f.length)
	}
	return s.cluster.clocks.step(f.length)
}

// lock holds locks as a stranger, once the server runs. A server that is stopped meanwhile releases them.
func (s *storm) lock(f fault) error {
	ctx, cancel := context.WithTimeout(context.Background(), f.length+patience)
	defer cancel()
	from := sinceBoot()
	for {
		held, err := s.cluster.lock(ctx, f)
		switch {
		case held && f.name == tableLocked:
			s.note(&s.outages, from)
			return nil
		case held:
			s.note(&s.locks, from)
			return nil
		case ctx.Err() != nil:
			return err
		}
		pause(ctx, promise/10)
	}
}

// newMember makes a member with its proxy, and starts its first process.
func (s *storm) newMember(j job) (*member, error) {
	m := &member{job: j, folder: s.folder}
	m.proxy, m.job.DSN = s.cluster.proxy(s.t)
	s.t.Cleanup(m.kill)
	return m, m.start()
}

// folder is where journals and logs are.
func folder(t *testing.T, seed uint64) string {
	t.Helper()
	if *keepFlag == "" {
		return t.TempDir()
	}
	return filepath.Join(*keepFlag, fmt.Sprint(seed))
}

// drawSeed returns the seed of the flag, or a random one.
func drawSeed() uint64 {
	if *seedFlag != 0 {
		return *seedFlag
	}
	return rand.Uint64N(1_000_000) + 1
}
