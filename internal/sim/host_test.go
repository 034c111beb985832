package sim_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// A host is one process that keeps runs. The world's mutex guards what changes.
type host struct {
	name   string
	link   *link
	keeper *session.Keeper
	clock  *hostClock // nil for the machine's
	stop   context.CancelFunc
	done   chan struct{} // closed when the keeper has stopped
	gone   bool          // it was killed, or has ended

	attaching  map[*run]bool
	lease      string // that it used last
	leaseSince time.Time
	// leaseLostAt is when a stranger expired its lease.
	leaseLostAt time.Time
	renewedAt   time.Time // when its lease was renewed last, in the database
	gapUntil    time.Time // when the latest stretch of three promises without a renewal ended
}

// An attachment is a run in one process. The world's mutex guards what changes.
type attachment struct {
	host    *host
	run     *run
	wd      *watchdog.Watchdog
	attempt int
	at      time.Time
	due     time.Time   // when its budget is used up
	busy    atomic.Bool // it signals all the time
	holds   []*watchdog.Hold
	closed  bool

	signalled  bool
	lastSignal time.Time
	wokeAt     time.Time // when a silence of more than its threshold ended last
	endedAt    time.Time // when its context was first seen to have ended
	lostSince  time.Time // since when its row is not its own
	ownAt      time.Time // when it was seen to be its own last
	awaySince  time.Time // since when its row is not in the lease of its process
}

func (w *world) newLink(name string) *link {
	l := &link{w: w, name: name, dead: make(chan struct{}), gone: make(chan struct{}), looks: map[string]*looks{}}
	long := w.began.Add(-time.Hour)
	l.health = health{okSince: time.Now(), badSince: long, badUntil: long}
	l.own = l.health
	return l
}

// startHost starts a process.
func (w *world) startHost() *host {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names++
	h := &host{name: fmt.Sprintf("h%d", w.names), attaching: map[*run]bool{}}
	h.link = w.newLink(h.name)
	h.link.host = h
	if w.rng.IntN(3) > 0 {
		h.clock = newHostClock(w.aside(maxAhead))
	}
	k, err := session.NewKeeper(session.KeeperConfig{
		Store: h.link, Host: h.name, Threshold: threshold, Promise: promise, Pace: pace, Poll: poll,
		RecordTimeout: recordTimeout, Logger: w.logger(h.name), RunThreshold: w.thresholdOf,
	})
	require.NoError(w.tb, err)
	h.keeper = k
	h.stop, h.done = start(k.Run)
	w.hosts = append(w.hosts, h)
	w.noteHealth()
	return h
}

// start runs what a process does until stop is called. Ended is closed when it has returned.
func start(run func(context.Context) error) (stop context.CancelFunc, ended chan struct{}) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = run(ctx)
	}()
	return stop, done
}

// now is what the wall clock of the process shows.
func (h *host) now() time.Time {
	if h.clock != nil {
		return h.clock.Now()
	}
	return time.Now()
}

func (w *world) thresholdOf(runID string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if r.id == runID {
			return r.threshold
		}
	}
	return 0
}

// attach attaches a run to a host.
func (w *world) attach(h *host, r *run, resume bool, mood int) {
	w.mu.Lock()
	started, budget := r.startedAt, r.wallClock
	h.attaching[r] = true
	r.attaches++
	w.mu.Unlock()
	name, begin, most := "New", watchdog.New, mostNew
	if resume {
		name, begin, most = "Resume", watchdog.Resume, mostResume
	}
	w.do(h, name+" "+r.id, most, func() error {
		began := time.Now()
		cfg := watchdog.Config{
			Store: h.link, Keeper: h.keeper, RecordTimeout: recordTimeout, Logger: w.logger(h.name),
			Budget: watchdog.Budget{WallClock: budget, Idle: r.idle},
		}
		if h.clock != nil {
			cfg.Clock = h.clock
		}
		wd, err := begin(context.Background(), watchdog.Run{ID: r.id, StartedAt: started}, cfg)
		if err == nil {
			w.add(&attachment{host: h, run: r, wd: wd, attempt: wd.Attempt().Number, at: began}, mood)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(h.attaching, r)
		return err
	})
}

// add adds an attachment. Its mood is whether it signals once, all the time or not at all.
func (w *world) add(a *attachment, mood int) {
	w.mu.Lock()
	a.lastSignal = a.at
	a.run.startedAt = a.wd.StartedAt()
	a.due = time.Now().Add(a.wd.Remaining())
	a.closed = a.attempt == 0 // its window had its stop already: it is not kept
	w.attached = append(w.attached, a)
	w.mu.Unlock()
	if a.closed {
		_ = a.wd.Close()
		return
	}
	a.busy.Store(mood > 1)
	if mood == 1 {
		w.signal(a, true)
	}
}

// signal has a run signal, unless its process cannot.
func (w *world) signal(a *attachment, progress bool) {
	w.mu.Lock()
	if a.host.gone || a.host.link.stopped != nil || a.closed {
		w.mu.Unlock()
		return
	}
	a.signals(time.Now())
	w.mu.Unlock()
	if progress {
		a.wd.Progress()
	} else {
		a.wd.Activity()
	}
}

// signals notes a sign of life. The caller holds the mutex.
func (a *attachment) signals(now time.Time) {
	if a.signalled && len(a.holds) == 0 && now.Sub(a.lastSignal) > a.shortestThreshold() {
		a.wokeAt = now
	}
	a.signalled, a.lastSignal = true, now
}

// shortestThreshold is the shortest silence after which a sweeper may end the run.
func (a *attachment) shortestThreshold() time.Duration {
	if a.run.threshold > 0 {
		return a.run.threshold
	}
	return max(sweeperThreshold, a.run.idle)
}

// hold opens a hold, or closes the one that is open.
func (w *world) hold(a *attachment) string {
	w.mu.Lock()
	if len(a.holds) > 0 {
		h := a.holds[0]
		a.signals(time.Now())
		a.holds = nil
		w.mu.Unlock()
		h.Close()
		return "closes its hold"
	}
	a.signals(time.Now())
	w.mu.Unlock()
	h, err := a.wd.Hold(context.Background(), "tool", watchdog.HoldLimit{Cap: watchdog.NoLimit})
	if err != nil {
		return "cannot hold: it has ended"
	}
	w.mu.Lock()
	a.holds = append(a.holds, h)
	w.mu.Unlock()
	return "opens a hold"
}

// close closes an attachment.
func (w *world) close(a *attachment) {
	w.mu.Lock()
	a.closed = true
	w.mu.Unlock()
	w.do(a.host, "Close "+a.run.id, mostClose, a.wd.Close)
}

func (w *world) complete(a *attachment) {
	w.do(a.host, "Complete "+a.run.id, mostComplete, a.wd.Complete)
}

// kill kills a process. Its calls fail, and its watchdogs are never told.
func (w *world) kill(h *host) {
	w.mu.Lock()
	h.gone = true
	close(h.link.dead)
	w.mu.Unlock()
	h.stop()
}

// shutDown ends a process in order.
func (w *world) shutDown(h *host) {
	w.mu.Lock()
	h.gone = true
	w.mu.Unlock()
	w.do(h, "shutdown", mostClose+2*recordTimeout, func() error {
		for _, a := range w.attachments() {
			if a.host == h {
				w.mu.Lock()
				a.closed = true
				w.mu.Unlock()
				go func() { _ = a.wd.Close() }()
			}
		}
		time.Sleep(mostClose)
		h.stop()
		<-h.done
		return nil
	})
}

// A sweeper is one process that sweeps.
type sweeper struct {
	name      string
	link      *link
	stop      context.CancelFunc
	done      chan struct{}
	gone      bool
	threshold time.Duration
	interval  time.Duration
	grace     time.Duration
	committed int // the cancels that it made, in the database
	counted   int // those that it knows of
}

// startSweeper starts a sweeper.
func (w *world) startSweeper(interval, grace time.Duration, minAge time.Duration, hook bool) *sweeper {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names++
	s := &sweeper{name: fmt.Sprintf("s%d", w.names), threshold: sweeperThreshold, interval: interval, grace: grace}
	s.link = w.newLink(s.name)
	cfg := sweep.Config{
		Interval: interval, StalledThreshold: s.threshold, MinAge: minAge, StartupDelay: watchdog.None,
		MaxCancellationsPerRun: watchdog.NoLimit, Grace: grace, StopTimeout: stopTimeout, RecordTimeout: recordTimeout,
		Logger: w.logger(s.name), OnPass: func(p sweep.Pass) { w.notePass(s, p) },
	}
	if hook {
		cfg.StopHook = func(context.Context, session.Session) error { time.Sleep(401 * time.Millisecond); return nil }
	}
	made, err := sweep.New(s.link, s.link, cfg)
	require.NoError(w.tb, err)
	s.stop, s.done = start(made.Run)
	w.sweepers = append(w.sweepers, s)
	w.noteHealth()
	return s
}

// endSweeper stops a sweeper, or kills it.
func (w *world) endSweeper(s *sweeper, kill bool) {
	w.mu.Lock()
	s.gone = true
	if kill {
		close(s.link.dead)
	}
	w.noteHealth()
	w.mu.Unlock()
	s.stop()
}

// The errors of the database.
var (
	errDown     = errors.New("connection refused")
	errLost     = errors.New("connection lost, the answer is unknown")
	errDead     = errors.New("this process is dead")
	errReadOnly = errors.New("cannot write in a read-only transaction")
	errRefused  = errors.New("a trigger refuses the row")
)

// A mode is how a database, or the way to it, behaves.
type mode int

const (
	works    mode = iota
	slow          // answers come late, within their time
	fails         // calls fail at once
	hangs         // calls are never answered, and have no effect
	loses         // calls take effect, and their answers are lost
	late          // writes take effect after their client has given up
	flaky         // any of these, for each call by itself
	readOnly      // writes fail
	modes
)

func (m mode) String() string {
	return [...]string{"works", "is slow", "fails", "hangs", "loses answers", "is late", "is flaky", "is read-only"}[m]
}

// A link is the way of one process to the database: a [session.Store] and a [session.Listener]. The world's mutex
// guards its fields.
type link struct {
	w    *world
	name string
	host *host         // nil for that of a sweeper
	dead chan struct{} // closed when the process is killed

	weather
	stopped  chan struct{} // closed when the process goes on; nil if it is not stopped
	wentOnAt time.Time
	losing   string        // the next write of that kind loses its answer; "write" is any
	lating   string        // the next write of that kind takes effect late
	gone     chan struct{} // closed when its connections break
	looks    map[string]*looks

	health        // with the database's faults
	own    health // without those that no process can write in, sweepers neither
}

// plan returns how the database behaves in a call.
func (l *link) plan(kind string, write bool) mode {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	m := l.mode
	if l.w.mode != works {
		m = l.w.mode
	}
	if m == flaky {
		m = []mode{works, works, works, slow, fails, hangs, loses, late}[l.chance(kind, 8)]
	}
	return l.possible(m, kind, write)
}

// possible returns how the database behaves in a call that is due to behave in that way. The caller holds the world's
// mutex.
func (l *link) possible(m mode, kind string, write bool) mode {
	if write {
		m = l.next(m, kind)
	}
	switch {
	case m == readOnly && !write:
		return works
	case m == late && !write:
		return hangs
	case m == late && kind == "Transact": // its client decides in the middle of the transaction
		return loses
	}
	return m
}

// next returns how the database behaves in the next write, if that was decided before.
func (l *link) next(m mode, kind string) mode {
	switch {
	case l.losing == "write" || l.losing == kind:
		l.losing, m = "", loses
	case l.lating == "write" || l.lating == kind:
		l.lating, m = "", late
	}
	return m
}

// chance is a number below n that depends on the seed, the call and the time only, and not on the order of calls.
func (l *link) chance(kind string, n uint64) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, l.w.seed, l.name, kind, time.Now().UnixNano())
	return h.Sum64() >> 7 % n
}

// running waits while the process is stopped. It returns an error once it is dead.
func (l *link) running() error {
	for {
		l.w.mu.Lock()
		stopped := l.stopped
		l.w.mu.Unlock()
		select {
		case <-l.dead:
			return errDead
		default:
		}
		if stopped == nil {
			return nil
		}
		select {
		case <-stopped:
		case <-l.dead:
		}
	}
}

// call makes a call of the database. Do is the call; it is made again later if its client gives up.
func call[T any](
	ctx context.Context, l *link, kind string, write bool, do func(context.Context, *session.Memory) (T, error),
) (answer T, err error) {
	if err := l.running(); err != nil {
		return answer, err
	}
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	answer, err = carryOut(ctx, l, kind, write, do)
	if dead := l.running(); dead != nil {
		err = dead
	}
	l.w.logCall(l, kind, err)
	return answer, err
}

func carryOut[T any](
	ctx context.Context, l *link, kind string, write bool, do func(context.Context, *session.Memory) (T, error),
) (answer T, err error) {
	var none T
	switch l.plan(kind, write) {
	case slow:
		if err := l.await(ctx, time.Duration(l.chance(kind, 300))*time.Millisecond); err != nil {
			return none, err
		}
	case fails:
		return none, errDown
	case readOnly:
		return none, errReadOnly
	case hangs:
		return none, l.hang(ctx)
	case loses:
		if _, err := do(ctx, l.w.database()); err != nil || l.chance(kind, 2) == 0 {
			return none, errors.Join(errLost, err)
		}
		return none, l.hang(ctx)
	case late:
		l.w.later(ctx, time.Duration(l.chance(kind, 20_000))*time.Millisecond, func() {
			_, err := do(context.Background(), l.w.database())
			l.w.logCall(l, "late "+kind, err)
		})
		return none, l.hang(ctx)
	}
	return do(ctx, l.w.database())
}

// hang waits until the context ends.
func (l *link) hang(ctx context.Context) error { return l.await(ctx, time.Hour) }

// await waits. It returns an error if the context ends, or the process dies.
func (l *link) await(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.dead:
		return errDead
	}
}

// able reports whether the process can write. The caller holds the world's mutex.
func (l *link) able() bool { return l.w.mode == works && l.mode == works && l.stopped == nil }

// reaches reports whether the process reaches the database. While that is down for all, nobody is dead for it. The
// caller holds the world's mutex.
func (l *link) reaches() bool { return l.w.mode != flaky && l.mode == works && l.stopped == nil }

// Listen tells of what ends while the connection works. One that is cut by a database that hangs is half open: it tells
// nothing, and does not end.
func (l *link) Listen(ctx context.Context, ready func(), told func(string)) error {
	if err := l.running(); err != nil {
		return err
	}
	l.w.mu.Lock()
	able, gone, db := l.able(), l.gone, l.w.db
	l.w.mu.Unlock()
	if !able {
		return errDown
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-gone:
		case <-l.dead:
		case <-ctx.Done():
		}
	}()
	err := db.Listen(ctx, ready, func(runID string) {
		if l.await(ctx, l.distance()) == nil && l.running() == nil && l.hears() {
			told(runID)
		}
	})
	if err == nil {
		err = errDown
	}
	return err
}

// distance is how long a notification is on its way. It does not arrive at the instant at which it was sent: what both
// sides do then has no order.
func (l *link) distance() time.Duration {
	return time.Millisecond + time.Duration(l.chance("Listen", uint64(time.Millisecond)))
}

func (l *link) hears() bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.able()
}

var (
	_ session.Store            = (*link)(nil)
	_ session.Listener         = (*link)(nil)
	_ session.BatchCanceller   = (*link)(nil)
	_ event.TransactionalStore = (*link)(nil)
)

// A truth is what the world knows besides. The world's mutex guards it, but for the log's.
type truth struct {
	logMu sync.Mutex

	acknowledged map[string]bool // IDs of events
	leaseOrder   map[string]int
	renewed      map[string]time.Time // when leases were renewed last, in the database
	beats        map[string]int64
	expired      map[string]bool // the leases that the database said have expired
	restoredAt   time.Time       // when the database came back older
	calmSince    time.Time       // since when nothing is wrong anywhere; zero while something is
	setBack      time.Duration
	swept        int
	longest      map[string]time.Duration // of the calls of a kind
	endSeen      map[string]time.Time     // when the events of ends were first seen
}

func newTruth() truth {
	return truth{
		acknowledged: map[string]bool{}, leaseOrder: map[string]int{}, longest: map[string]time.Duration{},
		endSeen: map[string]time.Time{}, renewed: map[string]time.Time{}, beats: map[string]int64{},
		expired: map[string]bool{},
	}
}

// A rowTruth is what happened to the row of a run.
type rowTruth struct {
	stuckUntil time.Time // when it could be written again, after it was locked or refused
	stuckSince time.Time
	deletedAt  time.Time
	attachedAt time.Time // when an attempt was begun last, in the database
	deadSince  time.Time // since when nobody runs it, and it is active
	activeAt   time.Time // when it was last seen to be active
	splitSince time.Time // since when several processes run it
}

func latest(all ...time.Time) time.Time { return slices.MaxFunc(all, time.Time.Compare) }

// acknowledge notes that a client was told that its events are stored.
func (w *world) acknowledge(err error, events []watchdog.Event) error {
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events {
		w.acknowledged[e.ID] = true
	}
	return nil
}

func (w *world) noteAttach(s session.Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if r.id == s.RunID {
			r.row.attachedAt, r.row.deadSince = time.Now(), time.Time{}
		}
	}
}

// noteHealth notes who can write now. The caller holds the mutex.
func (w *world) noteHealth() {
	now, calm := time.Now(), w.mode == works
	for _, h := range w.hosts {
		h.link.note(h.link.able(), now)
		h.link.own.note(h.link.reaches(), now)
		calm = calm && (h.gone || h.link.able())
	}
	sweeping := false
	for _, s := range w.sweepers {
		s.link.note(s.link.able(), now)
		calm = calm && (s.gone || s.link.able())
		sweeping = sweeping || !s.gone
	}
	for _, r := range w.runs {
		calm = calm && !w.rows.stuck(r.id)
	}
	calm = calm && w.leases.none()
	w.calmIf(calm && sweeping, now)
}

func (w *world) calmIf(calm bool, now time.Time) {
	switch {
	case !calm:
		w.calmSince = time.Time{}
	case w.calmSince.IsZero():
		w.calmSince = now
	}
}

// disturb notes that something happened at this moment.
func (w *world) disturb() {
	if !w.calmSince.IsZero() {
		w.calmSince = time.Now()
	}
}

func (w *world) notePass(s *sweeper, p sweep.Pass) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest["pass"] = max(w.longest["pass"], p.Duration)
	s.counted += p.Cancelled
}
