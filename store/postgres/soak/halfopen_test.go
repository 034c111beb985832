//go:build linux

package soak_test

import (
	"context"
	"fmt"
	"net"
	"sync"
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
