//go:build linux

package soak_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/sweep"
)

// A proxy stands between a process and the two servers. It has a port for each.
type proxy struct {
	ports [2]net.Listener
	all   sync.WaitGroup
	lost  atomic.Int64 // the answers at which lines broke

	mu      sync.Mutex
	servers [2]string // the sockets behind the ports
	lines   map[*line]struct{}
	closed  bool
	cut     bool          // whoever connects is turned away
	losing  bool          // each line breaks at one of its next answers
	delay   time.Duration // of each chunk
	open    chan struct{} // closed while data passes
}

// A line is a connection through a proxy.
type line struct {
	client, server net.Conn
	port           int
	vanished       atomic.Bool  // nothing arrives at either end, and nothing closes it
	answers        atomic.Int64 // how many pass before it breaks; negative is all
}

// startProxy closes the proxy when the test ends.
func startProxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{lines: map[*line]struct{}{}, open: make(chan struct{})}
	close(p.open)
	for i := range p.ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		p.ports[i] = listener
		p.all.Go(func() { p.accept(i) })
	}
	t.Cleanup(p.close)
	return p
}

// lead has a port lead to a server's socket from now on.
func (p *proxy) lead(port int, socket string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers[port] = socket
}

// leave has a port lead nowhere from now on, and breaks its lines.
func (p *proxy) leave(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers[port] = ""
	for l := range p.lines {
		if l.port == port && !l.vanished.Load() {
			l.hangUp()
		}
	}
}

// setDelay delays each chunk of data by so much.
func (p *proxy) setDelay(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

// setCut breaks all lines and turns new ones away, or takes new ones again.
func (p *proxy) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for l := range p.lines {
		if cut && !l.vanished.Load() {
			l.hangUp()
		}
	}
}

// hold keeps back all data until the returned func is called, and then delivers it. Nobody can connect meanwhile.
func (p *proxy) hold() (deliver func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	open := make(chan struct{})
	p.open = open
	return func() { close(open) }
}

// vanish makes all lines half-open: nothing arrives any more at either end. New lines work. The returned func closes
// the server's ends, as the server does when it misses the client.
func (p *proxy) vanish() (miss func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var gone []*line
	for l := range p.lines {
		l.vanished.Store(true)
		gone = append(gone, l)
	}
	return func() {
		for _, l := range gone {
			l.server.Close()
		}
	}
}

// setLosing breaks each line at one of its next answers, after the server has carried out what it was asked.
func (p *proxy) setLosing(losing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losing = losing
	for l := range p.lines {
		l.lose(losing)
	}
}

// lose sets the number of answers that still pass. A new line needs a few before it is of any use.
func (l *line) lose(losing bool) {
	l.answers.Store(-1)
	if losing {
		l.answers.Store(rand.Int64N(8)) // which request it is depends on the processes anyway
	}
}

func (l *line) hangUp() {
	l.client.Close()
	l.server.Close()
}

func (p *proxy) accept(port int) {
	for {
		client, err := p.ports[port].Accept()
		if err != nil {
			return
		}
		p.all.Go(func() { p.connect(port, client) })
	}
}

// connect connects a client with the server.
func (p *proxy) connect(port int, client net.Conn) {
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	<-open
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut || p.closed {
		client.Close()
		return
	}
	server, err := net.Dial("unix", p.servers[port])
	if err != nil {
		client.Close()
		return
	}
	l := &line{client: client, server: server, port: port}
	l.lose(p.losing)
	p.lines[l] = struct{}{}
	var ways sync.WaitGroup
	ways.Go(func() { p.pass(l, client, server, false) })
	ways.Go(func() { p.pass(l, server, client, true) })
	p.all.Go(func() {
		ways.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.lines, l)
	})
}

// pass passes data in one way until the line breaks.
func (p *proxy) pass(l *line, from, to net.Conn, answers bool) {
	content := make([]byte, 32<<10)
	for {
		n, err := from.Read(content)
		if l.vanished.Load() && err == nil {
			continue
		}
		p.mu.Lock()
		open, delay := p.open, p.delay
		p.mu.Unlock()
		<-open
		time.Sleep(delay)
		switch {
		case l.vanished.Load():
			if err == nil {
				continue
			}
			from.Close() // the other end is not told
			return
		case err == nil && answers && l.breaks():
			p.lost.Add(1)
			l.hangUp()
			return
		case err == nil:
			_, err = to.Write(content[:n])
		}
		if err != nil {
			l.hangUp()
			return
		}
	}
}

// breaks counts an answer, and reports whether the line breaks at it.
func (l *line) breaks() bool { return l.answers.Load() >= 0 && l.answers.Add(-1) < 0 }

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	for l := range p.lines {
		l.hangUp()
	}
	p.mu.Unlock()
	for _, port := range p.ports {
		port.Close()
	}
	p.all.Wait()
}

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

// seconds is what "within seconds" may take on a busy machine.
const seconds = 30 * time.Second

// newProxied starts a server, and returns a store with direct connections and one behind a proxy.
func newProxied(t *testing.T) (direct, proxied *postgres.Store, p *proxy) {
	t.Helper()
	server := pgtest.Start(t, pgtest.Options{})
	name := server.Database(t)
	p = startProxy(t)
	p.lead(0, socketOf(server))
	open := func(dsn string) *postgres.Store {
		s, err := postgres.Open(t.Context(), dsn, postgres.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}
	return open(server.DSN(name)),
		open(fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", p.ports[0].Addr().(*net.TCPAddr), name)), p
}

// lose has nothing arrive any more at either end of the connections, and turns new ones away.
func lose(p *proxy) {
	p.vanish()
	p.setCut(true)
}

// Listen returns an error within seconds when its connection is half-open.
func TestListenHalfOpen(t *testing.T) {
	t.Parallel()
	_, s, p := newProxied(t)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Listen(t.Context(), func() { close(ready) }, func(string) {}) }()
	<-ready
	lose(p)
	began := time.Now()
	require.ErrorContains(t, wait(t, ended), "the server did not answer")
	require.Less(t, time.Since(began), seconds)
	t.Logf("noticed after %v", time.Since(began))
	p.setCut(false)
	began = time.Now()
	require.NoError(t, s.Close())
	require.Less(t, time.Since(began), seconds)
}

// A routed store listens through a proxy, and does all else directly.
type routed struct {
	*postgres.Store
	proxied *postgres.Store
	ready   chan struct{}
	told    chan string
}

func (r *routed) Listen(ctx context.Context, ready func(), told func(runID string)) error {
	return r.proxied.Listen(ctx, func() { ready(); r.ready <- struct{}{} }, func(runID string) {
		told(runID)
		r.told <- runID
	})
}

// While its listening connection is half-open a keeper notices within seconds that a run was cancelled, because it
// polls, and later it listens again.
func TestKeeperHalfOpen(t *testing.T) {
	t.Parallel()
	direct, proxied, p := newProxied(t)
	s := &routed{Store: direct, proxied: proxied, ready: make(chan struct{}, 10), told: make(chan string, 10)}
	keeper, err := session.NewKeeper(session.KeeperConfig{Store: s, Host: "host-1"})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, keeper.Run(ctx)) })
	defer running.Wait()
	defer stop()
	guard := func(runID string) *watchdog.Watchdog {
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: runID, StartedAt: time.Now()},
			watchdog.Config{Store: s, Keeper: keeper})
		require.NoError(t, err)
		return wd
	}
	first, second := guard("run-1"), guard("run-2")
	defer first.Close()
	defer second.Close()
	wait(t, s.ready)
	lose(p)
	cancelNow(t, s, "run-1")
	wait(t, first.Context().Done())
	require.Empty(t, s.told, "nothing can have been told")
	p.setCut(false)
	wait(t, s.ready)
	cancelNow(t, s, "run-2")
	require.Equal(t, "run-2", wait(t, s.told))
	wait(t, second.Context().Done())
}

// cancelNow cancels a session as it stands.
func cancelNow(t *testing.T, s session.Store, runID string) {
	t.Helper()
	judged, err := s.Session(t.Context(), runID)
	require.NoError(t, err)
	stalled := sweep.StalledRun{
		RunID: runID, StartedAt: judged.StartedAt, DecidedAt: time.Now(), Silence: time.Hour, Threshold: time.Minute,
	}
	done, err := s.Cancel(t.Context(), judged, session.CancelRequest{
		Reason: watchdog.SessionIdleTimeout, Events: stalled.CancelEvents(),
	})
	require.NoError(t, err)
	require.Equal(t, session.Done, done)
}

// wait receives within seconds.
func wait[T any](t *testing.T, c <-chan T) (received T) {
	t.Helper()
	select {
	case received = <-c:
	case <-time.After(seconds):
		require.Fail(t, "nothing came within seconds")
	}
	return received
}
