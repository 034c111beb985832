package sim_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
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
	h := &host{name: fmt.Sprintf("h%d", w.names), done: make(chan struct{}), attaching: map[*run]bool{}}
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
	var ctx context.Context
	ctx, h.stop = context.WithCancel(context.Background())
	go func() {
		defer close(h.done)
		_ = k.Run(ctx)
	}()
	w.hosts = append(w.hosts, h)
	w.noteHealth()
	return h
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
	s := &sweeper{
		name: fmt.Sprintf("s%d", w.names), done: make(chan struct{}), threshold: sweeperThreshold, interval: interval,
		grace: grace,
	}
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
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	go func() {
		defer close(s.done)
		_ = made.Run(ctx)
	}()
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
