package watchdog_test

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// machine is a mock clock that can be set and suspended: the wall clock, the count of real time and the timers move
// apart as on a real machine.
type machine struct {
	*clock.Mock
	ahead time.Duration // the wall clock of real time
	slept time.Duration
}

// quiet is the log of tests that stop runs on purpose.
var quiet = slog.New(slog.DiscardHandler)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func (m *machine) Now() time.Time                  { return m.Mock.Now().Add(m.ahead + m.slept) }
func (m *machine) Since(t time.Time) time.Duration { return m.Now().Sub(t) }
func (m *machine) Uptime() time.Duration           { return m.Mock.Now().Sub(noon) + m.slept }

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

func newFixture(t *testing.T) *fixture {
	b := &fixture{t: t, clock: &machine{Mock: clock.NewMock()}, store: &flakyStore{}}
	b.clock.Set(noon)
	b.run = watchdog.Run{ID: "s-1", StartedAt: noon}
	b.cfg = watchdog.Config{Store: b.store, SpendStore: &b.store.Memory, Clock: b.clock, Logger: quiet}
	return b
}

// attach makes a watchdog that the test's end closes.
func (b *fixture) attach() *watchdog.Watchdog {
	b.t.Helper()
	wd, err := watchdog.New(context.Background(), b.run, b.cfg)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { wd.Close() })
	return wd
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
	all, err := b.store.Memory.Read(context.Background(), watchdog.AggregateType, b.run.ID)
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
