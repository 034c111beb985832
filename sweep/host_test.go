package sweep_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
)

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
func (f *fixture) leaseOf(runID string) string {
	f.Helper()
	s, err := f.Memory.Session(context.Background(), runID)
	require.NoError(f, err)
	return s.Lease
}

// lookTimes returns how long after began leases were observed.
func (f *fixture) lookTimes(began time.Time) (all []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range f.looks {
		all = append(all, at.Sub(began))
	}
	return all
}
