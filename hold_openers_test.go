package watchdog_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/record"
)

// An openerStore changes who opened the holds that are appended, unless change is nil.
type openerStore struct {
	watchdog.EventStore
	change func(*record.Opener) *record.Opener
}

func (s *openerStore) Append(ctx context.Context, events ...watchdog.Event) error {
	for i := range events {
		var p record.Hold
		if e := &events[i]; s.change != nil && e.Type == event.Hold && json.Unmarshal(e.Payload, &p) == nil {
			p.Opener = s.change(p.Opener)
			e.Payload = record.JSON(p)
		}
	}
	return s.EventStore.Append(ctx, events...)
}

// killed is the PID of a process that is gone.
func killed(t *testing.T) record.Count {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	require.NoError(t, cmd.Run())
	return record.Count(cmd.Process.Pid)
}

// approve has a run held for five minutes, and learn what the store knows.
func approve(b *fixture, wd *watchdog.Watchdog) {
	h := openHold(b.t, wd, "approval", approval)
	b.pass(5 * time.Minute)
	require.True(b.t, h.Close())
	b.pass(0)
	synced(b.t, wd)
}

// paused checks how long the wall clock stood still in the processes, and in one that attaches now.
func paused(b *fixture, want time.Duration, all ...*watchdog.Watchdog) {
	b.t.Helper()
	late := b.attach()
	for _, wd := range append(all, late) {
		require.Nil(b.t, synced(b.t, wd))
		require.Equal(b.t, want, handle.Of(wd.Context()).State().Paused)
	}
	require.NoError(b.t, late.Close())
}

// TestHoldOpeners has processes open holds with one key that stop the wall clock of an hour: A at once, and B after
// five minutes for five more. B goes on. A, if it lives, closes its own after an hour.
func TestHoldOpeners(t *testing.T) {
	const m = time.Minute
	dead := killed(t)
	onThisHost := func(o *record.Opener) *record.Opener {
		return &record.Opener{Boot: o.Boot, PID: dead, Started: o.Started, Attach: "gone"}
	}
	elsewhere := func(attempt record.Count) func(*record.Opener) *record.Opener {
		return func(o *record.Opener) *record.Opener {
			return &record.Opener{Boot: "another", PID: o.PID, Host: "b", Attempt: attempt, Attach: "unknown"}
		}
	}
	for _, c := range []struct {
		name    string
		a       func(*record.Opener) *record.Opener // as the store has it; nil is one that lives in this process
		attempt int                                 // of B
		paused  time.Duration                       // of the first 65 minutes
		ends    time.Duration                       // the run
	}{
		{"two that live: the pause is their union", nil, 0, 60 * m, 120 * m},
		{"one that was killed on this host is taken over", onThisHost, 0, 10 * m, 70 * m},
		{"of one on another host without a lease nothing is known", elsewhere(0), 0, 65 * m, 25 * time.Hour},
		{"one on another host whose attempt is over is taken over", elsewhere(1), 2, 10 * m, 70 * m},
		{"one of a later attempt is not", elsewhere(3), 2, 65 * m, 25 * time.Hour},
		{
			"of one in an event of before nothing is known", func(*record.Opener) *record.Opener { return nil }, 0,
			65 * m, 25 * time.Hour,
		},
	} {
		runFixture(t, c.name, func(b *fixture) {
			store := &openerStore{EventStore: b.store, change: c.a}
			b.cfg.Store, b.cfg.Budget = store, hourly
			a := b.attach()
			first := openHold(b.t, a, "approval", approval)
			b.pass(5 * m)
			if store.change != nil {
				watchdog.StopTimer(a) // it is not there any more
				b.cfg.Keeper = &fakeKeeper{attempt: watchdog.Attempt{Number: c.attempt}}
			}
			store.change = nil
			other := b.attach()
			approve(b, other)
			b.cfg.Keeper = nil
			b.pass(50 * m)
			if c.a == nil {
				b.live(a)
				require.True(b.t, first.Close())
				b.pass(0)
				require.Len(b.t, b.events(event.Release), 2, "each has its own")
			}
			b.pass(5 * m)
			paused(b, c.paused, other)
			b.pass(c.ends - 65*m)
			b.live(other)
			b.pass(1)
			b.stopped(other)
		})
	}
	runFixture(t, "one that was killed has two survivors", func(b *fixture) {
		store := &openerStore{EventStore: b.store, change: onThisHost}
		b.cfg.Store, b.cfg.Budget = store, hourly
		openHold(b.t, b.attach(), "approval", approval)
		b.pass(5 * m)
		store.change = nil
		one, other := b.attach(), b.attach()
		approve(b, one)
		approve(b, other)
		require.Len(b.t, b.events(event.Hold), 3)
		require.Len(b.t, b.events(event.Release), 4, "one of each of the survivors' own, and two of what they took over")
		paused(b, 15*m, one, other)
		b.pass(60 * m)
		b.live(one)
		b.pass(1)
		b.stopped(one)
	})
	runFixture(t, "an attach that has ended is taken over by the next one of its process", func(b *fixture) {
		b.cfg.Budget = hourly
		wd := b.attach()
		openHold(b.t, wd, "approval", approval)
		require.NoError(b.t, wd.Close())
		b.pass(5 * m)
		next := b.attach()
		approve(b, next)
		b.pass(5 * m)
		paused(b, 10*m, next)
	})
	runFixture(t, "a hold that stops nothing takes one over, too", func(b *fixture) {
		b.cfg.Budget = hourly
		wd := b.attach()
		openHold(b.t, wd, "approval", approval)
		require.NoError(b.t, wd.Close())
		b.pass(5 * m)
		next := b.attach()
		h := openHold(b.t, next, "approval", watchdog.HoldLimit{})
		b.pass(5 * m)
		require.True(b.t, h.Close())
		b.pass(5 * m)
		paused(b, 10*m, next)
	})
	runFixture(t, "that of a layer is of the process, too", func(b *fixture) {
		store := &openerStore{EventStore: b.store, change: onThisHost}
		b.cfg.Store, b.cfg.Budget = store, hourly
		openHold(b.t, openLayer(b.t, b.attach(), "build", watchdog.Budget{}), "approval", approval)
		b.pass(5 * m)
		store.change = nil
		wd := b.attach()
		layer := openLayer(b.t, wd, "build", watchdog.Budget{})
		h := openHold(b.t, layer, "approval", approval)
		b.pass(5 * m)
		require.True(b.t, h.Close())
		b.pass(5 * m)
		paused(b, 10*m, wd)
		opened := b.events(event.Hold)
		require.NotContains(b.t, string(opened[0].Payload), `"attempt"`)
		require.Contains(b.t, string(opened[1].Payload), `,"opener":{"boot":"`)
	})
}

// A panicking context panics at one of its methods.
type panicking struct {
	context.Context
	at string
}

func (c panicking) Done() <-chan struct{} {
	if c.at == "Done" {
		panic(c.at)
	}
	return make(chan struct{})
}

func (c panicking) AfterFunc(func()) (stop func() bool) { panic("AfterFunc") }

// TestHoldPanics protects that nothing is open after a panic.
func TestHoldPanics(t *testing.T) {
	runFixture(t, "a nil context is an error", func(b *fixture) {
		wd := b.attach()
		_, err := wd.Hold(nil, "approval", approval) //nolint:staticcheck // what it is about
		require.ErrorIs(b.t, err, watchdog.ErrInvalid)
		require.ErrorContains(b.t, err, "context")
		err = wd.During(nil, "approval", approval, func(context.Context) error { panic("begun") }) //nolint:staticcheck // so
		require.ErrorIs(b.t, err, watchdog.ErrInvalid)
		require.Zero(b.t, handle.Of(wd.Context()).State().Holds)
		require.Empty(b.t, b.events(event.Hold))
	})
	for _, at := range []string{"Done", "AfterFunc"} {
		runFixture(t, "a context panics at its "+at, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: time.Hour, Idle: 10 * time.Minute}
			wd := b.attach()
			ctx := panicking{context.Background(), at}
			require.PanicsWithValue(b.t, at, func() { _, _ = wd.Hold(ctx, "approval", approval) })
			require.PanicsWithValue(b.t, at, func() {
				_ = wd.During(ctx, "approval", approval, func(context.Context) error { return nil })
			})
			b.pass(0)
			require.Zero(b.t, handle.Of(wd.Context()).State().Holds)
			require.Len(b.t, b.events(event.Release), len(b.events(event.Hold)))
			b.pass(10 * time.Minute)
			b.live(wd)
			b.pass(1)
			requireStop(b.t, wd, watchdog.IdleExceeded)
		})
	}
}
