package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// seconds is what "within seconds" may take on a busy machine.
const seconds = 30 * time.Second

// Listen returns an error within seconds when its connection is half-open.
func TestListenHalfOpen(t *testing.T) {
	t.Parallel()
	p := startProxy(t, newDSN(t))
	s := openAt(t, p.DSN(), postgres.Config{})
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Listen(t.Context(), func() { close(ready) }, func(string) {}) }()
	<-ready
	p.vanish()
	began := time.Now()
	require.ErrorContains(t, wait(t, ended), "the server did not answer")
	assert.Less(t, time.Since(began), seconds)
	t.Logf("noticed after %v", time.Since(began))
	p.forward()
	began = time.Now()
	require.NoError(t, s.Close())
	assert.Less(t, time.Since(began), seconds)
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
	dsn := newDSN(t)
	p := startProxy(t, dsn)
	s := &routed{
		Store: openAt(t, dsn, postgres.Config{}), proxied: openAt(t, p.DSN(), postgres.Config{}),
		ready: make(chan struct{}, 10), told: make(chan string, 10),
	}
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
	p.vanish()
	cancelNow(t, s, "run-1")
	wait(t, first.Context().Done())
	assert.Empty(t, s.told, "nothing can have been told")
	p.forward()
	wait(t, s.ready)
	cancelNow(t, s, "run-2")
	assert.Equal(t, "run-2", wait(t, s.told))
	wait(t, second.Context().Done())
}

// cancelNow cancels a session as it stands.
func cancelNow(t *testing.T, s session.Store, runID string) {
	t.Helper()
	judged, err := s.Session(t.Context(), runID)
	require.NoError(t, err)
	request := cancelOf("cancel of "+runID, runID)
	request.Events[0].Timestamp = time.Now()
	request.Events[0].Payload = fmt.Appendf(nil, `{"reason":"idle_timeout","session_started_at":%q}`,
		judged.StartedAt.Format("2006-01-02T15:04:05.000000Z"))
	done, err := s.Cancel(t.Context(), judged, request)
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
