package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/locked"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fixture is a database with sessions, whose calls a test can make fail, and a sweeper, which is made at its first
// use. It lives in a synctest bubble.
type fixture struct {
	*testing.T
	*session.Memory
	cfg sweep.Config
	log *locked.Buffer

	onStalled func(ctx context.Context, q session.Query) error // before a page is read
	onPage    func(page *session.Page)                         // before it is returned
	onCancel  func(ctx context.Context, s session.Session) error
	onSession func(ctx context.Context) error // before a row is read
	onObserve func(ctx context.Context, suspects []string) error
	onLeases  func(all []session.Lease) // before they are returned
	onExpire  func(l session.Lease) (left int, err error)
	onClaim   func(ctx context.Context, s session.Session) error
	after     func() error                 // what Cancel and Warn return after they were done
	poisoned  func(s session.Session) bool // sessions whose warning fails, and whose cancel, alone and in a batch

	clockSet atomic.Int64 // by how much the database's clock was set
	made     *sweep.Sweeper

	mu        sync.Mutex
	pages     []time.Time
	looks     []time.Time // with suspects
	claims    []session.ClaimRequest
	cancelled []string
}

var errPoisoned = errors.New("poisoned")

// only returns whether a session is that of a run.
func only(runID string) func(s session.Session) bool {
	return func(s session.Session) bool { return s.RunID == runID }
}

func every(session.Session) bool { return true }

func inBubble(t *testing.T, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{T: t, Memory: &session.Memory{}, log: &locked.Buffer{}}
		f.Clock = func() time.Time { return time.Now().Add(time.Duration(f.clockSet.Load())) }
		f.cfg.StartupDelay = watchdog.None
		f.cfg.Logger = slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		test(f)
	})
}

// subtest is inBubble for a part of a test.
func subtest(t *testing.T, name string, test func(f *fixture)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, test) })
}

func (f *fixture) Stalled(ctx context.Context, q session.Query) (session.Page, error) {
	f.mu.Lock()
	f.pages = append(f.pages, time.Now())
	f.mu.Unlock()
	if f.onStalled != nil {
		if err := f.onStalled(ctx, q); err != nil {
			return session.Page{}, err
		}
	}
	page, err := f.Memory.Stalled(ctx, q)
	if f.onPage != nil {
		f.onPage(&page)
	}
	return page, err
}

func (f *fixture) Session(ctx context.Context, runID string) (session.Session, error) {
	if f.onSession != nil {
		if err := f.onSession(ctx); err != nil {
			return session.Session{}, err
		}
	}
	return f.Memory.Session(ctx, runID)
}

func (f *fixture) Cancel(ctx context.Context, s session.Session, c session.CancelRequest) (session.Outcome, error) {
	if f.onCancel != nil {
		if err := f.onCancel(ctx, s); err != nil {
			return "", err
		}
	}
	if f.poisoned != nil && f.poisoned(s) {
		return "", errPoisoned
	}
	outcome, err := f.Memory.Cancel(ctx, s, c)
	if outcome == session.Done {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.cancelled = append(f.cancelled, s.RunID)
	}
	return outcome, f.answer(err)
}

func (f *fixture) answer(err error) error {
	if err == nil && f.after != nil {
		return f.after()
	}
	return err
}

func (f *fixture) Warn(ctx context.Context, s session.Session, events []watchdog.Event) (session.Outcome, error) {
	if f.poisoned != nil && f.poisoned(s) {
		return "", errPoisoned
	}
	outcome, err := f.Memory.Warn(ctx, s, events)
	return outcome, f.answer(err)
}

func (f *fixture) Claim(ctx context.Context, s session.Session, c session.ClaimRequest) (session.Outcome, error) {
	f.mu.Lock()
	f.claims = append(f.claims, c)
	f.mu.Unlock()
	if f.onClaim != nil {
		if err := f.onClaim(ctx, s); err != nil {
			return "", err
		}
	}
	return f.Memory.Claim(ctx, s, c)
}

func (f *fixture) ObserveLeases(ctx context.Context, suspects []string) ([]session.Lease, error) {
	if len(suspects) > 0 {
		f.mu.Lock()
		f.looks = append(f.looks, time.Now())
		f.mu.Unlock()
	}
	if f.onObserve != nil {
		if err := f.onObserve(ctx, suspects); err != nil {
			return nil, err
		}
	}
	all, err := f.Memory.ObserveLeases(ctx, suspects)
	if f.onLeases != nil {
		f.onLeases(all)
	}
	return all, err
}

func (f *fixture) ExpireLease(ctx context.Context, l session.Lease) (expired bool, left int, err error) {
	if f.onExpire != nil {
		if left, err := f.onExpire(l); err != nil || left > 0 {
			return err == nil, left, err
		}
	}
	return f.Memory.ExpireLease(ctx, l)
}

// put adds a session that was created a day ago and has had no event for a while.
func (f *fixture) put(runID string, silence time.Duration) {
	f.row(session.Session{
		RunID: runID, Status: session.Active, CreatedAt: time.Now().Add(-24 * time.Hour),
		LastEventAt: time.Now().Add(-silence), StartedAt: time.Now().Add(-24 * time.Hour), Host: "there", Attempt: 1,
	})
}

func (f *fixture) row(s session.Session) { require.NoError(f, f.Put(context.Background(), s)) }

// putStalled adds sessions s-00, s-01 and so on. All are stalled, the first for the longest time.
func (f *fixture) putStalled(count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprintf("s-%02d", i))
		f.put(names[i], time.Hour-time.Duration(i)*time.Second)
	}
	return names
}

// wake gives a session an event, as a writer without a lease does.
func (f *fixture) wake(runID string) {
	s := f.get(runID)
	if s.Status == session.Active {
		s.LastEventAt = time.Now()
		f.row(s)
	}
}

// finish has the host of a session write that it has finished.
func (f *fixture) finish(runID string) {
	_, err := f.End(context.Background(), []session.Ending{{RunID: runID, Attempt: 1, Status: session.Finished}})
	require.NoError(f, err)
}

func (f *fixture) sweeper() *sweep.Sweeper {
	if f.made == nil {
		f.use(f)
	}
	return f.made
}

// pass has a pass in which nothing goes wrong.
func (f *fixture) pass() sweep.Pass {
	f.Helper()
	p, err := f.sweeper().Sweep(f.Context())
	require.NoError(f, err)
	return p
}

// fails has a pass in which something goes wrong.
func (f *fixture) fails(says string) sweep.Pass {
	f.Helper()
	p, err := f.sweeper().Sweep(f.Context())
	require.ErrorContains(f, err, says)
	return p
}

// failsFor is fails with an error that the pass wraps.
func (f *fixture) failsFor(cause error) sweep.Pass {
	f.Helper()
	p, err := f.sweeper().Sweep(f.Context())
	require.ErrorIs(f, err, cause)
	return p
}

// use has another sweeper pass from now on.
func (f *fixture) use(canceller sweep.Canceller) {
	f.Helper()
	s, err := sweep.New(f, canceller, f.cfg)
	require.NoError(f, err)
	f.made = s
}

// run starts the sweeper. The returned func stops it and waits for it.
func (f *fixture) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	s, done := f.sweeper(), make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	synctest.Wait()
	return func() {
		f.Helper()
		cancel()
		require.NoError(f, <-done)
	}
}

// advance lets time go by.
func (f *fixture) advance(d time.Duration) {
	time.Sleep(d) // fake time
	synctest.Wait()
}

func (f *fixture) ended() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.cancelled...)
}

// get returns the row of a run, past the hooks.
func (f *fixture) get(runID string) session.Session {
	f.Helper()
	s, err := f.Memory.Session(context.Background(), runID)
	require.NoError(f, err)
	return s
}

func (f *fixture) status(runID string) session.Status { return f.get(runID).Status }

// stored returns the events of a run.
func (f *fixture) stored(runID string) []watchdog.Event {
	f.Helper()
	all, err := f.Read(context.Background(), event.AggregateType, runID)
	require.NoError(f, err)
	return all
}

func (f *fixture) events(runID string) (kinds []string) {
	for _, e := range f.stored(runID) {
		kinds = append(kinds, e.Type)
	}
	return kinds
}

// outcomes returns how a pass handled its sessions.
func outcomes(p sweep.Pass) (all []string) {
	for _, c := range p.Cases {
		all = append(all, c.Session.RunID+" "+string(c.Handling))
	}
	return all
}

// A host is a process that runs sessions, as its keeper writes it.
type host struct {
	*fixture
	renewing sync.Mutex
	lease    session.Lease
	began    time.Time
	runs     []string
}

// promise is that of every host of newHost.
const promise = 10 * time.Second

// newHost begins a lease and attaches runs, which have not signalled yet: host-000, host-001 and so on.
func (f *fixture) newHost(name string, runs int) *host {
	f.Helper()
	return f.newHostOf(name, runs, promise)
}

// newHostOf is newHost with another promise.
func (f *fixture) newHostOf(name string, runs int, promise time.Duration) *host {
	f.Helper()
	h := &host{fixture: f, began: time.Now(), lease: session.Lease{ID: name, Host: name, Promise: promise, Beat: 1}}
	require.NoError(f, f.BeginLease(context.Background(), h.lease))
	for i := range runs {
		h.runs = append(h.runs, fmt.Sprintf("%s-%03d", name, i))
		_, _, err := f.Attach(context.Background(), session.Session{
			RunID: h.runs[i], StartedAt: time.Now(), Host: name, Lease: name,
		})
		require.NoError(f, err)
	}
	return h
}

// renew renews the lease, and vouches for all activity.
func (h *host) renew() {
	h.renewing.Lock()
	defer h.renewing.Unlock()
	h.lease.Beat++
	h.lease.Clock = time.Since(h.began)
	h.lease.Vouched = h.lease.Clock
	_ = h.RenewLease(context.Background(), h.lease) // fails once it has expired
}

// live renews the lease until stop is called.
func (h *host) live() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	tick := time.NewTicker(h.lease.Promise / 3)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-tick.C:
				h.renew()
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
		tick.Stop()
	}
}

// signal writes that the runs were active until now, and whether they are quiet.
func (h *host) signal(quiet bool, runs ...string) {
	h.Helper()
	for _, runID := range runs {
		_, err := h.Freshen(context.Background(), h.lease.ID, []session.Freshness{{
			RunID: runID, Attempt: 1, Activity: time.Since(h.began), Quiet: quiet,
		}})
		require.NoError(h, err)
	}
}

// leaseOf returns the lease that the row of a run names.
func (f *fixture) leaseOf(runID string) string { return f.get(runID).Lease }

// lookTimes returns how long after began leases were observed.
func (f *fixture) lookTimes(began time.Time) []time.Duration { return f.since(began, &f.looks) }

// pageTimes returns how long after began the pages were asked for.
func (f *fixture) pageTimes(began time.Time) []time.Duration { return f.since(began, &f.pages) }

func (f *fixture) since(began time.Time, times *[]time.Time) (all []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range *times {
		all = append(all, at.Sub(began))
	}
	return all
}
