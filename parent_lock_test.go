package watchdog_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// An ownContext is a parent of the host's own type. It has ended before it tells anybody.
type ownContext struct {
	context.Context
	mu      sync.Mutex
	err     error
	done    chan struct{}
	asked   func() // by AfterFunc
	stopped func() // by what that returned
}

func newOwnContext() *ownContext {
	nothing := func() {}
	return &ownContext{Context: context.Background(), done: make(chan struct{}), asked: nothing, stopped: nothing}
}

func (c *ownContext) Done() <-chan struct{} { return c.done }

func (c *ownContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *ownContext) AfterFunc(func()) (stop func() bool) {
	c.asked()
	return func() bool { c.stopped(); return true }
}

func (c *ownContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = context.Canceled
	close(c.done)
}

// returns fails the test if the call, which may wait for a mutex for ever, does not return.
func returns(t *testing.T, call func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it hangs")
	}
}

func TestTraceOfParentHoldsNoLock(t *testing.T) {
	for _, pollOnly := range []bool{true, false} {
		parent, told := newOwnContext(), make(chan struct{})
		var layer atomic.Pointer[watchdog.Watchdog]
		wd, err := watchdog.New(parent, watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
			Store: &flakyStore{}, Logger: quiet, PollOnly: pollOnly,
			OnSignal: func(s watchdog.Signal) {
				if s.Kind == watchdog.SignalEnd && s.Run == "s-1" {
					layer.Load().Remaining()
					close(told)
				}
			},
		})
		require.NoError(t, err)
		step, err := wd.Layer("step", watchdog.Budget{})
		require.NoError(t, err)
		layer.Store(step)
		parent.end()
		returns(t, func() { step.Close() }) // the layer finds that the run around it has ended
		returns(t, func() { <-told })
		require.NoError(t, wd.Close())
	}
}
