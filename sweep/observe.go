package sweep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
)

// Leases observes the leases of a database and expires those that are dead, beside the passes, which take the sessions.
// One call of the database is under way at a time. All methods are safe for concurrent use.
type leases struct {
	store   observer // nil if there is none
	limit   time.Duration
	only    bool // they are listed, and nothing is written
	logger  func() *slog.Logger
	clock   func() time.Duration // since an instant, by a clock that nobody sets
	calling chan struct{}        // has room for one: whoever fills it makes a call

	mu      sync.Mutex // guards what follows; only who makes a call writes the sightings
	seen    sightings
	news    Pass          // what was found out since a pass asked
	failing bool          // the last look failed
	changed chan struct{} // closed at the next change
}

func newLeases(store observer, cfg Config, clock func() time.Duration) *leases {
	return &leases{
		store: store, limit: cfg.RecordTimeout, only: cfg.DryRun, logger: cfg.logger, clock: clock,
		calling: make(chan struct{}, 1), changed: make(chan struct{}),
	}
}

// list reads the leases at the start of a pass, and returns how many rows they name as behind. What is left of those
// that expired before is taken out of them again.
func (l *leases) list(ctx context.Context) (behind int, err error) {
	if l.store == nil {
		return 0, nil
	}
	if !l.begin(ctx) {
		return 0, fmt.Errorf("list the leases: %w", context.Cause(ctx))
	}
	defer l.end()
	all, err := l.read(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("list the leases: %w", err)
	}
	for _, one := range all {
		if !one.Expired {
			behind += len(one.Behind)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen.note(all, l.clock())
	l.seen.takeUp(l.clock())
	return behind, nil
}

// observing observes the leases, each at its own time, until stop is called or ctx ends.
func (l *leases) observing(ctx context.Context) (stop func()) {
	if l.store == nil || l.only {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.observe(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (l *leases) observe(ctx context.Context) {
	for ctx.Err() == nil {
		l.mu.Lock()
		next, changed := l.seen.next(), l.changed
		l.mu.Unlock()
		timer := time.NewTimer(next - l.clock())
		select {
		case <-timer.C:
			l.step(ctx)
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// step makes the call that is due, if another has not made it meanwhile. Looks come first: they have their time, while
// a process that is dead stays so.
func (l *leases) step(ctx context.Context) {
	if !l.begin(ctx) {
		return
	}
	defer l.end()
	l.mu.Lock()
	now := l.clock()
	suspects, look := l.seen.toLookAt(now)
	dead := l.seen.toExpire(now)
	l.mu.Unlock()
	switch {
	case look:
		l.look(ctx, suspects)
	case dead != nil:
		l.expire(ctx, dead)
	}
}

// begin waits until no other call is under way. It reports false if ctx ends before that.
func (l *leases) begin(ctx context.Context) bool {
	select {
	case l.calling <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// end lets the next call begin, and wakes those who wait for a change.
func (l *leases) end() {
	l.mu.Lock()
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	<-l.calling
}

func (l *leases) read(ctx context.Context, suspects []string) ([]session.Lease, error) {
	return bounded.Within(ctx, l.limit, func(ctx context.Context) ([]session.Lease, error) {
		return l.store.ObserveLeases(ctx, suspects)
	})
}

// look looks at suspects in one call, and reads all other leases. Which of these are renewed says whether the suspects
// are a whole fleet.
func (l *leases) look(ctx context.Context, suspects []string) {
	began := l.clock()
	all, err := l.read(ctx, suspects)
	look := verdict.Look{Began: began, Ended: l.clock(), Sure: err == nil}
	if ctx.Err() != nil {
		return
	}
	for _, d := range l.noteLook(suspects, look, all, err) {
		if !d.lost {
			l.logger().Warn("a whole fleet seems to have died or to be cut off, and no cap is lifted for its sessions",
				append(d.attrs(), "dead", d.dead+1, "leases", d.all+1, "others_renewed", d.renewed)...)
		}
	}
}

// A death is that of a lease beside others.
type death struct {
	*observed
	others
}

// noteLook notes a look, and returns the leases that it found dead. What could not be looked at is one error until a
// look succeeds or a pass asks. That the leases cannot be read is none: the passes find that, too.
func (l *leases) noteLook(suspects []string, look verdict.Look, all []session.Lease, err error) (deaths []death) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.seen.note(all, look.Ended)
	} else {
		l.seen.failed(look.Ended)
	}
	if len(suspects) == 0 {
		return nil
	}
	if err != nil && !l.failing {
		l.news.addError(fmt.Errorf("observe %d leases: %w", len(suspects), err))
	}
	l.failing = err != nil
	for _, o := range l.seen.looked(suspects, look, all) {
		deaths = append(deaths, death{o, l.seen.judge(o, look.Ended)})
		l.news.FleetDied = l.news.FleetDied || !o.lost
	}
	return deaths
}

// expire expires a dead lease, and takes a part of its sessions out of it, in one call.
func (l *leases) expire(ctx context.Context, o *observed) {
	type answer struct {
		expired bool
		left    int
	}
	dead, wasExpired := o.Lease, o.Expired
	dead.Lost, dead.Looks = o.lost, o.count
	a, err := bounded.Within(ctx, l.limit, func(ctx context.Context) (a answer, err error) {
		a.expired, a.left, err = l.store.ExpireLease(ctx, dead)
		return a, err
	})
	if ctx.Err() != nil && err != nil {
		return
	}
	l.noteExpire(o, a.expired, a.left, err)
	switch {
	case errors.Is(err, session.ErrLocked):
		l.logger().Info("a lease that is not renewed is locked by another transaction", o.attrs()...)
	case a.expired && !wasExpired:
		l.logger().Warn("a lease was not renewed and has expired: its process is dead or cut off",
			append(o.attrs(), "looks", o.count, "renewed_at", o.RenewedAt)...)
	}
}

// noteExpire notes what became of a dead lease. One that was renewed after all is observed again, and so is one that
// could not be expired.
func (l *leases) noteExpire(o *observed, expired bool, left int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	switch {
	case err != nil:
		o.startAgain()
		o.due = now + o.promise()
		if !errors.Is(err, session.ErrLocked) {
			l.news.addError(fmt.Errorf("expire the lease %s of host %q: %w", o.ID, o.Host, err))
		}
	case !expired:
		o.startAgain()
		o.restAt(now)
	default:
		if !o.Expired {
			l.news.LeasesExpired++
		}
		l.seen.expired(o, left, now)
	}
}

// suspected returns the suspects that somebody can wait for, and until when.
func (l *leases) suspected() map[string]time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen.suspected(l.clock())
}

// progress returns how often sessions were taken out of a dead lease, whether one of the suspects is not decided yet,
// and a channel that is closed when that may have changed.
func (l *leases) progress(until map[string]time.Duration) (dead int, undecided bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen.dead, l.seen.undecided(until), l.changed
}

func (l *leases) takeNews() Pass {
	l.mu.Lock()
	defer l.mu.Unlock()
	news := l.news
	l.news, l.failing = Pass{}, false
	return news
}
