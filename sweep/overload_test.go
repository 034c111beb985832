package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A starvedStore is a database that the keeper of one process does not reach while the machine has too much to do, and
// that others reach.
type starvedStore struct {
	*session.Memory
	before, after atomic.Pointer[func(ctx context.Context) error] // a call is carried out
}

func (s *starvedStore) call(ctx context.Context, do func() error) error {
	if before := s.before.Load(); before != nil {
		if err := (*before)(ctx); err != nil {
			return err
		}
	}
	err := do()
	if after := s.after.Load(); after != nil && err == nil {
		err = (*after)(ctx)
	}
	return err
}

func (s *starvedStore) BeginLease(ctx context.Context, l session.Lease) error {
	return s.call(ctx, func() error { return s.Memory.BeginLease(ctx, l) })
}

func (s *starvedStore) RenewLease(ctx context.Context, l session.Lease) error {
	return s.call(ctx, func() error { return s.Memory.RenewLease(ctx, l) })
}

func (s *starvedStore) Freshen(
	ctx context.Context, lease string, fresh []session.Freshness,
) (skipped session.Skipped, err error) {
	err = s.call(ctx, func() (err error) {
		skipped, err = s.Memory.Freshen(ctx, lease, fresh)
		return err
	})
	return skipped, err
}

func (s *starvedStore) End(ctx context.Context, ends []session.Ending) (skipped session.Skipped, err error) {
	err = s.call(ctx, func() (err error) {
		skipped, err = s.Memory.End(ctx, ends)
		return err
	})
	return skipped, err
}

func (s *starvedStore) Read(ctx context.Context, aggregateType, id string) (events []watchdog.Event, err error) {
	err = s.call(ctx, func() (err error) {
		events, err = s.Memory.Read(ctx, aggregateType, id)
		return err
	})
	return events, err
}

// A machine with too much to do is a network that is cut, for whom it concerns: no connection comes about, though the
// process runs and its runs are busy. Others reach the database, and a sweeper among them takes the process for dead
// when it has not written for three promises, as it takes one that is stopped. A row is cancelled once its last written
// sign of life is older than the threshold, so that of a process which comes back in time some are and some are not:
// each run reads which it is, and has one end.
func TestOverloadedHost(t *testing.T) {
	const threshold = 5 * promise
	refused := func(context.Context) error { return errors.New("resource temporarily unavailable") }
	late := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		before, after func(ctx context.Context) error
		length        time.Duration
		some, all     bool // are cancelled
	}{
		"whose connections are refused for two promises":     {before: refused, length: 2 * promise},
		"whose connections take too long for two promises":   {before: late, length: 2 * promise},
		"whose answers come too late for ever":               {after: late, length: 20 * promise},
		"that writes again before its rows are too old":      {before: refused, length: 4 * promise},
		"that writes again when some of its rows are":        {before: refused, length: threshold - promise/5, some: true},
		"that writes again when all of its rows are":         {before: late, length: 2 * threshold, all: true},
		"that writes again when all of its rows are by much": {before: refused, length: 5 * threshold, all: true},
	} {
		subtest(t, "a process "+name, func(f *fixture) {
			f.cfg.Interval, f.cfg.StartupDelay, f.cfg.StalledThreshold = time.Second, watchdog.None, threshold
			f.cfg.MinAge, f.cfg.MaxCancellationsPerRun = watchdog.None, watchdog.NoLimit
			starved := &starvedStore{Memory: f.Memory}
			host, other := f.keep("starved", starved, threshold), f.keep("other", f.Memory, threshold)
			defer host.stop()
			defer other.stop()
			f.advance(time.Minute)
			stop := f.run()
			f.advance(time.Minute)
			for hook, do := range map[*atomic.Pointer[func(context.Context) error]]func(context.Context) error{
				&starved.before: c.before, &starved.after: c.after,
			} {
				if do != nil {
					hook.Store(&do)
				}
			}
			f.advance(c.length)
			starved.before.Store(nil)
			starved.after.Store(nil)
			f.advance(time.Minute)
			stop()
			require.Zero(f, other.ended(), "another process lives")
			switch ended := host.ended(); {
			case c.all:
				require.Equal(f, keptRuns, ended)
			case c.some:
				require.Positive(f, ended)
				require.Less(f, ended, keptRuns)
			default:
				require.Zero(f, ended)
			}
			host.check()
		})
	}
}

// keptRuns is how many busy runs a process has.
const keptRuns = 12

// A keptHost is a process with a keeper and busy runs, whose rows are written at different moments.
type keptHost struct {
	*fixture
	runs []*watchdog.Watchdog
	stop func()
}

func (f *fixture) keep(name string, store session.Store, threshold time.Duration) *keptHost {
	keeper, err := session.NewKeeper(session.KeeperConfig{
		Store: store, Host: name, Promise: promise, Threshold: threshold, RecordTimeout: promise, Logger: f.cfg.Logger,
	})
	require.NoError(f, err)
	ctx, cancel := context.WithCancel(context.Background())
	h := &keptHost{fixture: f}
	var running sync.WaitGroup
	running.Go(func() { require.NoError(f, keeper.Run(ctx)) })
	for i := range keptRuns {
		run := watchdog.Run{ID: fmt.Sprintf("%s-%d", name, i), StartedAt: time.Now()}
		wd, err := watchdog.New(context.Background(), run, watchdog.Config{
			Store: store, Keeper: keeper, Logger: f.cfg.Logger,
		})
		require.NoError(f, err)
		h.runs = append(h.runs, wd)
		running.Go(func() {
			for time.Sleep(time.Duration(i) * time.Second / 3); ctx.Err() == nil; time.Sleep(4 * time.Second) {
				wd.Activity()
			}
		})
	}
	h.stop = func() {
		for _, wd := range h.runs {
			assert.NoError(f, wd.Close())
		}
		cancel()
		running.Wait()
		synctest.Wait()
	}
	return h
}

// ended returns how many runs have ended.
func (h *keptHost) ended() (n int) {
	for _, wd := range h.runs {
		if wd.Context().Err() != nil {
			n++
		}
	}
	return n
}

// check checks that each run has one end or is active, and that row, event and process say the same.
func (h *keptHost) check() {
	for _, wd := range h.runs {
		row, err := h.Memory.Session(context.Background(), wd.ID())
		require.NoError(h, err)
		events := h.events(wd.ID())
		if wd.Context().Err() == nil {
			require.Equal(h, session.Active, row.Status)
			require.NotEmpty(h, row.Lease, "the run was claimed back")
			require.NotContains(h, events, watchdog.EventCancel)
			continue
		}
		var stop *watchdog.Stop
		require.ErrorAs(h, context.Cause(wd.Context()), &stop)
		require.Equal(h, watchdog.SessionHostLost, stop.Code)
		require.Equal(h, session.Cancelled, row.Status)
		require.Equal(h, watchdog.SessionHostLost, row.Reason)
		ends := 0
		for _, kind := range events {
			if kind == watchdog.EventCancel {
				ends++
			}
		}
		require.Equal(h, 1, ends)
	}
}
