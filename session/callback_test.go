package session_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A lateParent has ended before its Done says so, as the contexts of some frameworks do.
type lateParent struct {
	context.Context
	ended atomic.Bool
	done  chan struct{}
}

func (p *lateParent) Done() <-chan struct{} { return p.done }

func (p *lateParent) Err() error {
	if p.ended.Load() {
		return context.Canceled
	}
	return nil
}

// TestKeeperCallback protects a host that asks the keeper from a callback of a run: a look of the keeper's can end a run
// with its parent, and so call the host. Real time, because a mutex that nobody unlocks stops a bubble for ever.
func TestKeeperCallback(t *testing.T) {
	keeper, err := session.NewKeeper(session.KeeperConfig{
		Store: &session.Memory{}, Threshold: time.Minute, Pace: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- keeper.Run(ctx) }()

	parent := &lateParent{Context: context.Background(), done: make(chan struct{})}
	asked := make(chan struct{})
	wd, err := watchdog.New(parent, watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
		Store: &watchdog.Memory{}, Keeper: keeper, Logger: slog.New(slog.DiscardHandler),
		OnSignal: func(s watchdog.Signal) {
			if s.Kind == watchdog.SignalEnd {
				keeper.Live()
				close(asked)
			}
		},
	})
	require.NoError(t, err)
	parent.ended.Store(true)
	select {
	case <-asked:
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the keeper holds its mutex while it asks its runs")
	}
	require.NoError(t, wd.Close())
	close(parent.done)
	stop()
	require.NoError(t, <-ran)
}
