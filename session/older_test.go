package session_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A pair is a primary with an asynchronous standby, which gets nothing after it was copied. Who uses the lease when it
// is promoted finds its connection broken, once. The events are those of the primary.
type pair struct {
	session.Store
	serving   atomic.Pointer[session.Memory]
	broken    atomic.Bool
	noFreshen atomic.Bool
	onEnd     func() // after ends were written, and before that is answered
}

func newPair() *pair {
	m := &session.Memory{}
	p := &pair{Store: m}
	p.serving.Store(m)
	return p
}

func (p *pair) now() *session.Memory { return p.serving.Load() }

// promote has a copy take the place of the primary.
func (p *pair) promote(standby *session.Memory) {
	p.broken.Store(true)
	p.serving.Store(standby)
}

func (p *pair) BeginLease(ctx context.Context, l session.Lease) error {
	return p.now().BeginLease(ctx, l)
}

func (p *pair) RenewLease(ctx context.Context, l session.Lease) error {
	if p.broken.CompareAndSwap(true, false) {
		return errors.New("unexpected EOF")
	}
	return p.now().RenewLease(ctx, l)
}

func (p *pair) Freshen(ctx context.Context, lease string, fresh []session.Freshness) (session.Skipped, error) {
	if p.noFreshen.Load() {
		return session.Skipped{}, errors.New("the table is locked")
	}
	return p.now().Freshen(ctx, lease, fresh)
}

func (p *pair) Attach(ctx context.Context, s session.Session) (before, after session.Session, err error) {
	return p.now().Attach(ctx, s)
}

func (p *pair) End(ctx context.Context, ends []session.Ending) (session.Skipped, error) {
	skipped, err := p.now().End(ctx, ends)
	if p.onEnd != nil {
		p.onEnd()
	}
	return skipped, err
}

func (p *pair) Session(ctx context.Context, runID string) (session.Session, error) {
	return p.now().Session(ctx, runID)
}

func (p *pair) LeaseSessions(ctx context.Context, id string) ([]session.AttemptID, error) {
	return p.now().LeaseSessions(ctx, id)
}

// inPair runs a test with a keeper on a pair.
func inPair(t *testing.T, test func(t *testing.T, p *pair, k *session.Keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPair()
		k, err := session.NewKeeper(session.KeeperConfig{Store: p})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = k.Run(ctx) })
		t.Cleanup(func() { cancel(); running.Wait() })
		test(t, p, k)
	})
}

// inPairOf is inPair for a part of a test.
func inPairOf(t *testing.T, name string, test func(t *testing.T, p *pair, k *session.Keeper)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inPair(t, test) })
}

// attach makes a watchdog that is closed at the end of the test.
func (p *pair) attach(t *testing.T, k *session.Keeper) *watchdog.Watchdog {
	t.Helper()
	w, err := watchdog.New(context.Background(), watchdog.Run{ID: "run-1", StartedAt: time.Now()}, watchdog.Config{
		Store: p, Keeper: k, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

func (p *pair) stalled(t *testing.T) int {
	t.Helper()
	page, err := p.now().Stalled(t.Context(), session.Query{Threshold: session.DefaultThreshold, Limit: 10})
	require.NoError(t, err)
	return len(page.Sessions)
}

// What a row said last can be lost with a server. The keeper writes it again.
func TestRowsOfOlderDatabase(t *testing.T) {
	const minute = time.Minute
	inPairOf(t, "a run that woke up is not silent", func(t *testing.T, p *pair, k *session.Keeper) {
		w := p.attach(t, k)
		w.Activity()
		time.Sleep(session.DefaultThreshold - minute/3)
		standby := p.now().Clone()
		w.Activity()
		time.Sleep(minute / 12)
		p.promote(standby)
		for range 50 { // in which it has nothing new
			time.Sleep(time.Second)
			require.Zero(t, p.stalled(t))
		}
	})
	inPairOf(t, "nor one that woke up while no renewal worked", func(t *testing.T, p *pair, k *session.Keeper) {
		w := p.attach(t, k)
		w.Activity()
		time.Sleep(session.DefaultThreshold - session.DefaultPromise/4) // less than a renewal
		p.broken.Store(true)
		standby := p.now().Clone()
		time.Sleep(session.DefaultPromise / 3)
		require.False(t, p.broken.Load())
		w.Activity()
		time.Sleep(2 * session.DefaultPace)
		p.serving.Store(standby)
		for range 200 {
			require.Zero(t, p.stalled(t))
			time.Sleep(session.DefaultPace / 10)
		}
	})
	inPairOf(t, "a run that fell silent is", func(t *testing.T, p *pair, k *session.Keeper) {
		w := p.attach(t, k)
		standby := p.now().Clone()
		w.Activity()
		time.Sleep(2 * minute)
		p.promote(standby)
		time.Sleep(session.DefaultThreshold - 3*minute)
		require.Zero(t, p.stalled(t))
		time.Sleep(2 * minute)
		require.Equal(t, 1, p.stalled(t))
	})
	inPairOf(t, "a run says what it does", func(t *testing.T, p *pair, k *session.Keeper) {
		w := p.attach(t, k)
		standby := p.now().Clone()
		require.NoError(t, w.Extend(minute))
		w.Activity()
		time.Sleep(2 * minute)
		want, err := p.Session(t.Context(), "run-1")
		require.NoError(t, err)
		p.promote(standby)
		time.Sleep(minute)
		got, err := p.Session(t.Context(), "run-1")
		require.NoError(t, err)
		require.Equal(t, string(want.State), string(got.State))
	})
}

// A database that came back older counts attempts again. The end of a run whose attempt is lost is not that of the run
// which has the number now.
func TestAttemptOfOlderDatabase(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair, k *session.Keeper) {
		first := p.attach(t, k)
		require.NoError(t, first.Close())
		time.Sleep(time.Minute + session.DefaultPace/2) // no flush writes the end as well
		standby := p.now().Clone()
		lost := p.attach(t, k)
		require.Equal(t, 2, lost.Attempt().Number)
		var live *watchdog.Watchdog
		p.promote(standby)
		p.onEnd = func() {
			p.onEnd = nil
			live = p.attach(t, k)
		}
		require.NoError(t, lost.Close())
		require.Equal(t, 2, live.Attempt().Number)
		for range 10 {
			time.Sleep(time.Minute / 2)
			live.Activity()
		}
		require.Equal(t, 1, k.Live())
		row, err := p.Session(t.Context(), "run-1")
		require.NoError(t, err)
		require.Equal(t, session.Active, row.Status)
	})
}

// An end can wait for others to be written, and its attempt be lost meanwhile. The run that has the number by then lives
// on, and is kept.
func TestEndOfOlderDatabase(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair, k *session.Keeper) {
		first := p.attach(t, k)
		var lost, live *watchdog.Watchdog
		var closing sync.WaitGroup
		p.onEnd = func() {
			p.onEnd = nil
			standby := p.now().Clone()
			lost = p.attach(t, k)
			closing.Go(func() { _ = lost.Close() })
			synctest.Wait() // it waits for the first end
			p.promote(standby)
			live = p.attach(t, k)
		}
		require.NoError(t, first.Close())
		closing.Wait()
		require.Equal(t, lost.Attempt().Number, live.Attempt().Number)
		row, err := p.Session(t.Context(), "run-1")
		require.NoError(t, err)
		require.Equal(t, session.Active, row.Status)
		require.Equal(t, 1, k.Live())
	})
}

// A row that could not be written, and was written right before the server was lost, is behind again. While nothing can
// be written there, the lease still names it.
func TestBehindOfOlderDatabase(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair, k *session.Keeper) {
		var locked atomic.Bool
		p.now().Locked = func(string) bool { return locked.Load() }
		w := p.attach(t, k)
		w.Activity()
		time.Sleep(session.DefaultThreshold - time.Minute)
		locked.Store(true)
		w.Activity()
		time.Sleep(2 * time.Minute)
		standby := p.now().Clone()
		locked.Store(false)
		time.Sleep(session.DefaultPromise / 2)
		p.noFreshen.Store(true)
		p.promote(standby)
		for range 30 {
			time.Sleep(time.Second)
			require.Zero(t, p.stalled(t))
		}
		p.noFreshen.Store(false)
		time.Sleep(session.DefaultPromise)
	})
}
