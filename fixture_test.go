package watchdog_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/watchdogtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is a mock clock that can be set and suspended: the wall clock, the count of real time and the timers move
// apart as on a real machine.
type machine struct {
	*watchdogtest.MockClock
	ahead time.Duration // the wall clock of real time
	slept time.Duration
}

// quiet is the log of tests that stop runs on purpose.
var quiet = slog.New(slog.DiscardHandler)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func (m *machine) Now() time.Time        { return m.Mock.Now().Add(m.ahead + m.slept) }
func (m *machine) Uptime() time.Duration { return m.Mock.Now().Sub(noon) + m.slept }

// step sets the wall clock.
func (m *machine) step(d time.Duration) { m.ahead += d }

// suspend lets the machine sleep: real time and the wall clock go on, timers do not.
func (m *machine) suspend(d time.Duration) { m.slept += d }

// A fixture is what a test of a run needs: a fake machine, a store, and a run that started at noon.
type fixture struct {
	t     *testing.T
	clock *machine
	store *flakyStore
	run   watchdog.Run
	cfg   watchdog.Config
}

// inFixture runs the test in a synctest bubble, where pass waits for all that a passing moment sets off.
func inFixture(t *testing.T, test func(b *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newFixture(t)) })
}

// runSynced runs a case of a test in a bubble.
func runSynced(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// runFixture is inFixture for one case of a test.
func runFixture(t *testing.T, name string, test func(b *fixture)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inFixture(t, test) })
}

func newFixture(t *testing.T) *fixture {
	b := &fixture{t: t, clock: &machine{MockClock: watchdogtest.NewMockClock()}, store: &flakyStore{}}
	b.clock.Set(noon)
	b.run = watchdog.Run{ID: "s-1", StartedAt: noon}
	b.cfg = watchdog.Config{Store: b.store, Clock: b.clock, Logger: quiet}
	return b
}

// guard guards a run that begins now, until the end of the test.
func guard(t *testing.T, cfg watchdog.Config) *watchdog.Watchdog {
	t.Helper()
	return guardUnder(context.Background(), t, cfg)
}

// guardUnder is guard under a parent.
func guardUnder(parent context.Context, t *testing.T, cfg watchdog.Config) *watchdog.Watchdog {
	t.Helper()
	return attachTo(parent, t, watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
}

// attachTo attaches to a run until the end of the test, with a quiet log if the config has none.
func attachTo(parent context.Context, t *testing.T, run watchdog.Run, cfg watchdog.Config) *watchdog.Watchdog {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	wd, err := watchdog.New(parent, run, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { wd.Close() })
	return wd
}

// openLayer makes a layer, which ends with its run.
func openLayer(t *testing.T, wd *watchdog.Watchdog, name string, budget watchdog.Budget) *watchdog.Watchdog {
	t.Helper()
	layer, err := wd.Layer(name, budget)
	require.NoError(t, err)
	return layer
}

// openHold opens a hold that only its close or its run's end closes.
func openHold(t *testing.T, wd *watchdog.Watchdog, key string, limit watchdog.HoldLimit) *watchdog.Hold {
	t.Helper()
	h, err := wd.Hold(context.Background(), key, limit)
	require.NoError(t, err)
	return h
}

// poll polls a directive that is there.
func poll(t *testing.T, wd *watchdog.Watchdog) watchdog.Directive {
	t.Helper()
	d, ok := wd.Poll()
	require.True(t, ok)
	return d
}

func hasFired(wd *watchdog.Watchdog) bool {
	_, fired := wd.Fired()
	return fired
}

// cancelRun has a guard of the host's end the run, and returns the stop, nil for a run that is only observed.
func cancelRun(t *testing.T, wd *watchdog.Watchdog, c watchdog.Cancellation) *watchdog.Stop {
	t.Helper()
	stop, err := wd.Cancel(c)
	require.NoError(t, err)
	return stop
}

// synced has the run heed what other processes did.
func synced(t *testing.T, wd *watchdog.Watchdog) *watchdog.Stop {
	t.Helper()
	stop, err := wd.Sync(context.Background())
	require.NoError(t, err)
	return stop
}

func (b *fixture) attach() *watchdog.Watchdog {
	b.t.Helper()
	return b.under(context.Background())
}

// under attaches under a parent.
func (b *fixture) under(parent context.Context) *watchdog.Watchdog {
	b.t.Helper()
	return attachTo(parent, b.t, b.run, b.cfg)
}

func (b *fixture) resume() *watchdog.Watchdog {
	b.t.Helper()
	wd, err := watchdog.Resume(context.Background(), b.run, b.cfg)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { wd.Close() })
	return wd
}

// pass lets time pass and everything happen that it sets off.
func (b *fixture) pass(d time.Duration) {
	b.clock.Add(d)
	synctest.Wait()
}

// events returns the run's events of one kind.
func (b *fixture) events(kind string) []watchdog.Event {
	b.t.Helper()
	all, err := b.store.Memory.Read(context.Background(), event.AggregateType, b.run.ID)
	require.NoError(b.t, err)
	var found []watchdog.Event
	for _, e := range all {
		if e.Type == kind {
			found = append(found, e)
		}
	}
	return found
}

// live reports that the run goes on: not fired, and its context not ended.
func (b *fixture) live(wd *watchdog.Watchdog) {
	b.t.Helper()
	_, fired := wd.Fired()
	require.False(b.t, fired, "the run has fired: %v", wd.Stop())
	require.NoError(b.t, wd.Context().Err())
}

// stopped reports that the run has fired, that its context says the same, and returns the stop.
func (b *fixture) stopped(wd *watchdog.Watchdog) *watchdog.Stop {
	b.t.Helper()
	reason, fired := wd.Fired()
	require.True(b.t, fired, "the run has not fired after %v", wd.Elapsed())
	require.Equal(b.t, watchdog.WallClockExceeded, reason)
	var stop *watchdog.Stop
	require.ErrorAs(b.t, context.Cause(wd.Context()), &stop)
	require.Same(b.t, stop, wd.Stop())
	return stop
}

// attachFunc is New or Resume.
type attachFunc = func(context.Context, watchdog.Run, watchdog.Config) (*watchdog.Watchdog, error)

// goroutines is how many there are. Those in which the runtime runs finalizers count while they do, which is not for
// long: the least of several counts has none of them.
func goroutines() int {
	least := runtime.NumGoroutine()
	for range 100 {
		runtime.Gosched()
		least = min(least, runtime.NumGoroutine())
	}
	return least
}

var errDiskFull = errors.New("disk full")

// flakyStore is a Memory that can be told to fail or to hang. It is not a *Memory to the watchdog, so that it is waited
// for.
type flakyStore struct {
	Memory watchdog.Memory

	mu             sync.Mutex
	fail           error         // what Append returns
	hang           chan struct{} // what Append waits for
	ignoresContext bool          // whether it waits on when its context ends
	failGet        error         // what Read returns
	appends        int           // how often Append was called
}

func (s *flakyStore) set(change func(s *flakyStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// hangs has Append wait until goOn is called.
func (s *flakyStore) hangs() (goOn func()) {
	hang := make(chan struct{})
	s.set(func(s *flakyStore) { s.hang = hang })
	return func() {
		s.set(func(s *flakyStore) { s.hang = nil })
		close(hang)
	}
}

func (s *flakyStore) Append(ctx context.Context, events ...watchdog.Event) error {
	s.mu.Lock()
	fail, hang, ignoresContext := s.fail, s.hang, s.ignoresContext
	s.appends++
	s.mu.Unlock()
	if hang != nil {
		if err := wait(ctx, hang, ignoresContext); err != nil {
			return err
		}
		ctx = context.WithoutCancel(ctx)
	}
	if fail != nil {
		return fail
	}
	return s.Memory.Append(ctx, events...)
}

func wait(ctx context.Context, hang chan struct{}, ignoresContext bool) error {
	if ignoresContext {
		<-hang
		return nil
	}
	select {
	case <-hang:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *flakyStore) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	s.mu.Lock()
	fail := s.failGet
	s.mu.Unlock()
	if fail != nil {
		return nil, fail
	}
	return s.Memory.Read(ctx, aggregateType, aggregateID)
}

// A hookedStore calls the host's code before it is asked, and answers with the error of that, if there is one.
type hookedStore struct {
	watchdog.EventStore
	append func(events []watchdog.Event) error
	read   func() error
}

func (s *hookedStore) Append(ctx context.Context, events ...watchdog.Event) error {
	if s.append != nil {
		if err := s.append(events); err != nil {
			return err
		}
	}
	return s.EventStore.Append(ctx, events...)
}

func (s *hookedStore) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	if s.read != nil {
		if err := s.read(); err != nil {
			return nil, err
		}
	}
	return s.EventStore.Read(ctx, aggregateType, aggregateID)
}

// beforeAppend does something between the store's first read and the first append after it.
func beforeAppend(store watchdog.EventStore, do func()) *hookedStore {
	s := &hookedStore{EventStore: store}
	s.append = func([]watchdog.Event) error {
		s.append = nil
		do()
		return nil
	}
	return s
}

var errRefused = errors.New("column too short")

// refusing refuses the events of a kind, whatever they come with.
func refusing(kind string) func(events []watchdog.Event) error {
	return func(events []watchdog.Event) error {
		if slices.ContainsFunc(events, func(e watchdog.Event) bool { return e.Type == kind }) {
			return errRefused
		}
		return nil
	}
}

// calls counts what a store was asked.
type calls struct{ appends, reads, selects, transacts int }

// A countingStore is a Memory that counts what is asked of it, and can be told to be slow. It is not a *Memory to the
// watchdog, so that it is waited for.
type countingStore struct {
	watchdog.Memory

	delay time.Duration
	fail  error // what Select returns

	mu         sync.Mutex
	calls      calls
	exchanges  int // of all transactions
	read       int // how many events were read
	goroutines int // the most that were seen
}

func (s *countingStore) count(one func()) {
	s.mu.Lock()
	one()
	s.goroutines = max(s.goroutines, runtime.NumGoroutine())
	s.mu.Unlock()
	time.Sleep(s.delay)
}

func (s *countingStore) Append(ctx context.Context, events ...watchdog.Event) error {
	s.count(func() { s.calls.appends++ })
	return s.Memory.Append(context.WithoutCancel(ctx), events...)
}

func (s *countingStore) Read(ctx context.Context, kind, id string) ([]watchdog.Event, error) {
	events, err := s.Memory.Read(ctx, kind, id)
	s.count(func() { s.calls.reads, s.read = s.calls.reads+1, s.read+len(events) })
	return events, err
}

func (s *countingStore) Select(ctx context.Context, of event.Selection) ([]watchdog.Event, error) {
	if s.fail != nil {
		return nil, s.fail
	}
	events, err := s.Memory.Select(ctx, of)
	s.count(func() { s.calls.selects, s.read = s.calls.selects+1, s.read+len(events) })
	return events, err
}

func (s *countingStore) Transact(ctx context.Context, exchanges ...*event.Exchange) error {
	s.count(func() { s.calls.transacts, s.exchanges = s.calls.transacts+1, s.exchanges+len(exchanges) })
	for _, x := range exchanges {
		decide := x.Decide
		x.Decide = func(events []watchdog.Event) []watchdog.Event {
			s.read += len(events)
			return decide(events)
		}
	}
	return s.Memory.Transact(context.WithoutCancel(ctx), exchanges...)
}

// recorded counts the runs that have one event of the kind.
func (s *countingStore) recorded(t *testing.T, all []*watchdog.Watchdog, kind string) (n int) {
	t.Helper()
	return recordedIn(t, &s.Memory, all, kind)
}

func recordedIn(t *testing.T, store *watchdog.Memory, all []*watchdog.Watchdog, kind string) (n int) {
	t.Helper()
	for _, wd := range all {
		events, err := store.Read(context.Background(), event.AggregateType, wd.ID())
		require.NoError(t, err)
		of := slices.DeleteFunc(events, func(e watchdog.Event) bool { return e.Type != kind })
		require.LessOrEqual(t, len(of), 1)
		n += len(of)
	}
	return n
}

// TestClockSleep protects that a deadline which passed in a sleep is seen within a minute, without a poll.
func TestClockSleep(t *testing.T) {
	inFixture(t, func(b *fixture) {
		wd := b.attach()
		b.pass(time.Hour)
		b.clock.suspend(8 * time.Hour)
		b.pass(time.Minute)
		require.Error(b.t, wd.Context().Err())
		require.GreaterOrEqual(b.t, b.stopped(wd).Elapsed, 9*time.Hour)
	})
}
