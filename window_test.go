package watchdog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/locked"
)

func TestResumeFails(t *testing.T) {
	inCancelled := func(name string, test func(b *fixture, k *fakeKeeper)) {
		runKept(t, name, func(b *fixture, k *fakeKeeper) {
			wd := b.attach()
			b.pass(over)
			b.stopped(wd)
			k.kept = nil
			test(b, k)
		})
	}
	stillCancelled := func(b *fixture, k *fakeKeeper) {
		require.Len(b.t, k.kept, 1)
		require.Error(b.t, k.kept[0].Context().Err(), "it is kept no longer")
		require.Empty(b.t, b.events(event.Resume))
		b.stopped(b.attach())
	}
	inCancelled("a run that cannot be kept is not resumed", func(b *fixture, k *fakeKeeper) {
		k.keep = func(_ context.Context, w *watchdog.Watchdog) error {
			require.Equal(b.t, noon.Add(over).Truncate(time.Microsecond), w.StartedAt(), "the row names the fresh window")
			return errDiskFull
		}
		_, err := watchdog.Resume(context.Background(), b.run, b.cfg)
		require.ErrorIs(b.t, err, errDiskFull)
		stillCancelled(b, k)
	})
	inCancelled("a run whose resumption cannot be recorded is kept no longer", func(b *fixture, k *fakeKeeper) {
		b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
		_, err := watchdog.Resume(context.Background(), b.run, b.cfg)
		require.ErrorIs(b.t, err, errDiskFull)
		stillCancelled(b, k)
	})
	inCancelled("an error after the run is resumed says that it is", func(b *fixture, k *fakeKeeper) {
		b.cfg.Store = beforeAppend(b.store, func() { b.store.set(func(s *flakyStore) { s.failGet = errDiskFull }) })
		_, err := watchdog.Resume(context.Background(), b.run, b.cfg)
		require.ErrorIs(b.t, err, errDiskFull)
		require.ErrorContains(b.t, err, "the run is resumed")
		require.Error(b.t, k.kept[0].Context().Err())
	})
	inCancelled("a run that another process resumes meanwhile goes on, and is kept, in that window", func(b *fixture, k *fakeKeeper) {
		cfg, other := b.cfg, (*watchdog.Watchdog)(nil)
		b.cfg.Store = beforeAppend(b.store, func() {
			b.clock.step(-minute)
			cfg.Keeper = nil
			other, _ = watchdog.Resume(context.Background(), b.run, cfg)
			b.clock.step(minute)
		})
		wd := b.resume()
		defer other.Close()
		require.Equal(b.t, other.StartedAt(), wd.StartedAt())
		require.Len(b.t, b.events(event.Resume), 1)
		require.Len(b.t, k.kept, 2)
		require.Same(b.t, wd, k.kept[1])
		require.Error(b.t, k.kept[0].Context().Err())
		b.live(wd)
	})
}

// TestFreshWindows protects that a layer shares nothing with what ran under its name before, whatever clocks say.
func TestFreshWindows(t *testing.T) {
	layer := func(b *fixture, wd *watchdog.Watchdog) *watchdog.Watchdog {
		b.t.Helper()
		return openLayer(b.t, wd, "step", watchdog.Budget{WallClock: 500 * time.Millisecond})
	}
	runFixture(t, "and nothing is read for it", func(b *fixture) {
		wd := b.attach()
		b.store.set(func(s *flakyStore) { s.failGet = errDiskFull })
		b.live(layer(b, wd))
	})
	runFixture(t, "a run with a slash in its ID is not the layer of that name", func(b *fixture) {
		wd := b.attach()
		step := layer(b, wd)
		b.pass(time.Second)
		require.Equal(b.t, "s-1", b.stopped(step).Parent)
		session := b.run
		session.ID = "s-1/step"
		other := attachTo(context.Background(), b.t, session, b.cfg)
		b.live(other)
	})
	runFixture(t, "its events name it last", func(b *fixture) {
		step := layer(b, b.attach())
		b.pass(time.Second)
		b.stopped(step)
		events, err := b.store.Memory.Read(b.t.Context(), event.AggregateType, "s-1/step")
		require.NoError(b.t, err)
		for _, e := range events {
			var payload struct{ Window string }
			require.NoError(b.t, json.Unmarshal(e.Payload, &payload))
			require.Regexp(b.t, `,"window":"[0-9a-f-]{36}"}$`, string(e.Payload))
		}
	})
}

// A continuing is a run of which the host keeps no more than the ID.
type continuing struct {
	*fixture
	store watchdog.EventStore
}

// inContinuing runs the test with a store that is read whole, one that is read in parts, and one that answers at once.
func inContinuing(t *testing.T, test func(c *continuing)) {
	t.Helper()
	for name, store := range map[string]func() watchdog.EventStore{
		"whole": func() watchdog.EventStore { return &flakyStore{} },
		"parts": func() watchdog.EventStore { return &countingStore{} },
		"once":  func() watchdog.EventStore { return &watchdog.Memory{} },
	} {
		runFixture(t, name, func(b *fixture) {
			c := &continuing{b, store()}
			b.cfg.Store, b.run = c.store, watchdog.Run{ID: "s-1"}
			test(c)
		})
	}
}

// runContinuing is inContinuing for one case of a test.
func runContinuing(t *testing.T, name string, test func(c *continuing)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inContinuing(t, test) })
}

// logged has the run logged to a text.
func (b *fixture) logged() *locked.Buffer {
	log := new(locked.Buffer)
	b.cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	return log
}

// kinds are the kinds of the run's events.
func (c *continuing) kinds() (kinds []string) {
	c.t.Helper()
	all, err := c.store.Read(context.Background(), event.AggregateType, c.run.ID)
	require.NoError(c.t, err)
	for _, e := range all {
		kinds = append(kinds, e.Type)
	}
	return kinds
}

// restarts has the host come up at each interval, until the run is stopped.
func (c *continuing) restarts(every time.Duration) (n int, stop *watchdog.Stop) {
	c.t.Helper()
	for {
		wd := c.attach()
		n++
		if stop = wd.Stop(); stop != nil {
			return n, stop
		}
		c.pass(every - time.Second)
		stop = wd.Stop()
		require.NoError(c.t, wd.Close())
		c.pass(time.Second) // it is down
		if stop != nil {
			return n, stop
		}
	}
}

func TestStoredStart(t *testing.T) {
	runContinuing(t, "a host that restarts every minute does not put off the end of its run", func(c *continuing) {
		n, stop := c.restarts(time.Minute)
		require.Equal(c.t, 241, n)
		require.Equal(c.t, watchdog.WallClockExceeded, stop.Code)
		require.Equal(c.t, noon, stop.StartedAt)
		require.Equal(c.t, []string{event.Start, event.Warning, event.Cancel}, c.kinds())
		require.NotNil(c.t, c.attach().Stop(), "nor does it begin it again")
	})
	runContinuing(t, "a run whose host passed its start before goes on in its window", func(c *continuing) {
		explicit := c.run
		c.run.StartedAt = noon
		_, stop := c.restarts(time.Hour)
		require.NotNil(c.t, stop)
		c.pass(time.Hour)
		resumed := c.resume()
		require.NoError(c.t, resumed.Close())
		c.pass(time.Hour)
		c.run = explicit
		for range 2 {
			wd := c.attach()
			require.Equal(c.t, resumed.StartedAt(), wd.StartedAt())
			require.NoError(c.t, wd.Close())
		}
		_, stop = c.restarts(time.Hour)
		require.Equal(c.t, resumed.StartedAt(), stop.StartedAt)
	})
	t.Run("a layer's run of that name is another", func(t *testing.T) {
		inContinuing(t, func(c *continuing) {
			require.NoError(t, c.attach().Close())
			c.pass(time.Hour)
			c.run.Parent = "s-0"
			require.Equal(t, noon.Add(time.Hour), c.attach().StartedAt())
			require.Equal(t, noon.Add(time.Hour), c.attach().StartedAt())
		})
		inContinuing(t, func(c *continuing) { // also where events tell of it
			continues := c.run
			for i, parent := range []string{"s-0", ""} {
				c.run = watchdog.Run{ID: "s-1", StartedAt: noon.Add(time.Duration(i) * 5 * time.Hour), Parent: parent}
				_, stop := c.restarts(5 * time.Hour)
				require.NotNil(t, stop)
			}
			c.run = continues
			require.Equal(t, noon.Add(5*time.Hour), c.attach().StartedAt())
			c.run.Parent = "s-0"
			require.Equal(t, noon, c.attach().StartedAt())
		})
	})
	runContinuing(t, "a run that a clock ahead resumed, of a host that passed its start until then, can be resumed again", func(c *continuing) {
		continues := c.run
		c.run = watchdog.Run{ID: c.run.ID, StartedAt: noon}
		_, stop := c.restarts(time.Hour)
		require.NotNil(c.t, stop)
		c.clock.step(time.Hour)
		require.NoError(c.t, c.resume().Close())
		c.clock.step(-time.Hour)
		c.run = continues
		_, err := watchdog.New(context.Background(), c.run, c.cfg)
		require.ErrorContains(c.t, err, "or use Resume to open another")
		resumed := c.resume()
		require.NoError(c.t, resumed.Close())
		for range 3 { // also when the clock is where the other was
			c.pass(time.Hour)
			wd := c.attach()
			require.Equal(c.t, resumed.StartedAt(), wd.StartedAt())
			require.NoError(c.t, wd.Close())
		}
	})
	runFixture(t, "a hundred resumes cost no more than one", func(b *fixture) {
		store := &countingStore{}
		b.cfg.Store, b.run = store, watchdog.Run{ID: "s-1"}
		require.NoError(b.t, b.attach().Close())
		read := map[int]int{}
		for n := range 101 {
			b.pass(5 * time.Hour)
			require.NotNil(b.t, b.attach().Stop())
			resumed := b.resume()
			require.NoError(b.t, resumed.Close())
			b.pass(2 * time.Minute)
			before := store.read
			require.Equal(b.t, resumed.StartedAt(), b.attach().StartedAt())
			read[n] = store.read - before
		}
		require.LessOrEqual(b.t, read[100], read[1])
		require.Less(b.t, read[100], 10)
	})
}

// before is an event as the version before wrote it.
func before(t *testing.T, name string) (e watchdog.Event) {
	t.Helper()
	text, err := os.ReadFile("testdata/before/" + name + ".json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &e))
	return e
}

// TestStoredStartBefore protects the start of a run that stands on a checkpoint of a version before.
func TestStoredStartBefore(t *testing.T) {
	runContinuing(t, "it is found, and nothing is stored", func(c *continuing) {
		require.NoError(c.t, c.store.Append(c.t.Context(), before(c.t, "start")))
		c.pass(time.Hour)
		require.Equal(c.t, noon, c.attach().StartedAt())
		require.Equal(c.t, []string{"runtime.watchdog.checkpoint"}, c.kinds())
		_, stop := c.restarts(time.Hour)
		require.Equal(c.t, noon, stop.StartedAt)
		require.Equal(c.t, watchdog.WallClockExceeded, stop.Code)
	})
	runContinuing(t, "of processes of both versions that begin one run, the first one's counts", func(c *continuing) {
		wd := c.attach()
		late := before(c.t, "start")
		late.Payload = bytes.ReplaceAll(late.Payload, []byte("12:00:00"), []byte("12:00:07"))
		require.NoError(c.t, c.store.Append(c.t.Context(), late))
		require.Equal(c.t, wd.StartedAt(), c.attach().StartedAt())
		require.Equal(c.t, []string{event.Start}, c.kinds())
	})
	runContinuing(t, "other checkpoints of before change nothing, nor do they name a start", func(c *continuing) {
		require.NoError(c.t, c.store.Append(c.t.Context(), before(c.t, "checkpoint")))
		c.pass(3 * time.Hour)
		wd := c.attach()
		require.Equal(c.t, noon.Add(3*time.Hour), wd.StartedAt())
		require.Equal(c.t, 4*time.Hour, wd.Remaining())
		require.NoError(c.t, wd.Close())
		c.run = watchdog.Run{ID: "s-1", StartedAt: noon}
		wd = c.attach()
		require.Equal(c.t, time.Hour, wd.Remaining(), "no extension, no pause")
		_, err := wd.Sync(c.t.Context())
		require.NoError(c.t, err)
		require.Equal(c.t, time.Hour, wd.Remaining())
	})
}

// TestStoredStartTogether has many processes begin one run at once.
func TestStoredStartTogether(t *testing.T) {
	for range 20 {
		for _, store := range []watchdog.EventStore{&flakyStore{}, &countingStore{delay: time.Millisecond}} {
			synctest.Test(t, func(t *testing.T) {
				starts := make([]time.Time, 16)
				var all sync.WaitGroup
				for i := range starts {
					all.Go(func() {
						time.Sleep(time.Duration(i) * 100 * time.Microsecond)
						run, cfg := watchdog.Run{ID: "s-1"}, watchdog.Config{Store: store, Logger: quiet}
						wd, err := watchdog.New(context.Background(), run, cfg)
						if err != nil {
							t.Error(err)
							return
						}
						starts[i] = wd.StartedAt()
						if err := wd.Close(); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				for _, start := range starts {
					require.Equal(t, starts[0], start)
				}
			})
		}
	}
}

// TestStoredStartFails protects that nothing is guarded by a clock that begins again.
func TestStoredStartFails(t *testing.T) {
	fails := func(b *fixture, k *fakeKeeper) error {
		b.t.Helper()
		wd, err := watchdog.New(context.Background(), b.run, b.cfg)
		require.Error(b.t, err)
		require.Nil(b.t, wd)
		require.Empty(b.t, k.kept)
		return err
	}
	in := func(t *testing.T, test func(b *fixture, k *fakeKeeper)) {
		inKeepersBed(t, func(b *fixture, k *fakeKeeper) {
			b.run = watchdog.Run{ID: "s-1"}
			test(b, k)
		})
	}
	t.Run("a store that cannot be read, or written", func(t *testing.T) {
		for _, broken := range []func(s *flakyStore){
			func(s *flakyStore) { s.failGet = errDiskFull }, func(s *flakyStore) { s.fail = errDiskFull },
		} {
			in(t, func(b *fixture, k *fakeKeeper) {
				b.store.set(broken)
				err := fails(b, k)
				require.ErrorIs(t, err, errDiskFull)
				require.ErrorContains(t, err, "attach watchdog: look up when run s-1 began: ")
				b.store.set(func(s *flakyStore) { s.fail, s.failGet = nil, nil })
				b.pass(time.Hour)
				require.Equal(t, noon.Add(time.Hour), b.attach().StartedAt())
			})
		}
	})
	runSynced(t, "one that hangs holds New up for one record timeout", func(t *testing.T) {
		store := &flakyStore{hang: make(chan struct{})}
		began := time.Now()
		_, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1"},
			watchdog.Config{Store: store, Logger: quiet})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, watchdog.DefaultRecordTimeout, time.Since(began))
	})
	runFixture(t, "one that keeps what it said it did not: the run has begun", func(b *fixture) {
		b.run = watchdog.Run{ID: "s-1"}
		lost := &hookedStore{EventStore: b.store}
		lost.append = func(events []watchdog.Event) error {
			lost.append = nil
			require.NoError(b.t, b.store.Append(context.Background(), events...))
			return errDiskFull
		}
		b.cfg.Store = lost
		_, err := watchdog.New(context.Background(), b.run, b.cfg)
		require.ErrorIs(b.t, err, errDiskFull)
		b.pass(time.Hour)
		require.Equal(b.t, noon, b.attach().StartedAt())
	})
	t.Run("one that does not keep what it took", func(t *testing.T) {
		in(t, func(b *fixture, k *fakeKeeper) {
			b.cfg.Store = staleStore{b.store}
			require.ErrorContains(t, fails(b, k), "does not have it")
		})
	})
	t.Run("an event that cannot be read", func(t *testing.T) {
		stored := func(kind, payload string) watchdog.Event {
			return watchdog.Event{
				ID: "e-1", AggregateType: event.AggregateType, AggregateID: "s-1", Type: kind,
				Payload: json.RawMessage(payload), Timestamp: noon.Add(-time.Hour),
			}
		}
		in(t, func(b *fixture, k *fakeKeeper) {
			require.NoError(t, b.store.Append(context.Background(), stored(event.Cancel, `{"reason":7}`)))
			err := fails(b, k)
			require.ErrorIs(t, err, watchdog.ErrUnreadableEvent)
			require.ErrorContains(t, err, "e-1")
		})
		in(t, func(b *fixture, k *fakeKeeper) {
			require.NoError(t, b.attach().Close())
			k.kept = nil
			e := b.events(event.Start)[0]
			e.Payload = json.RawMessage(`{"session_started_at":"yesterday"}`)
			b.cfg.Store = &flakyStore{}
			require.NoError(t, b.cfg.Store.Append(context.Background(), e))
			err := fails(b, k)
			require.ErrorIs(t, err, watchdog.ErrUnreadableEvent)
			require.ErrorContains(t, err, e.ID)
		})
	})
	t.Run("what the host wrote", func(t *testing.T) {
		for want, run := range map[string]watchdog.Run{
			"run ID: it is empty": {},
		} {
			in(t, func(b *fixture, k *fakeKeeper) {
				b.run = run
				err := fails(b, k)
				require.ErrorIs(t, err, watchdog.ErrInvalid)
				require.ErrorContains(t, err, want)
				require.Zero(t, b.store.appends)
			})
		}
	})
}

// TestStoredStartOfRow checks runs that only their keeper knows, as of a host that passed the start until now.
func TestStoredStartOfRow(t *testing.T) {
	in := func(t *testing.T, start time.Time, test func(b *fixture, k *fakeKeeper)) {
		t.Helper()
		inKeepersBed(t, func(b *fixture, k *fakeKeeper) {
			b.pass(3 * time.Hour)
			b.run, k.start = watchdog.Run{ID: "s-1"}, start
			test(b, k)
		})
	}
	t.Run("the keeper's start is stored", func(t *testing.T) {
		in(t, noon, func(b *fixture, k *fakeKeeper) {
			require.Equal(t, time.Hour, b.attach().Remaining())
			k.start = noon.Add(time.Hour) // the row was written again
			require.Equal(t, noon, b.attach().StartedAt())
			require.Len(t, b.events(event.Start), 1)
		})
	})
	t.Run("one in the future does not count, nor one of a run with events", func(t *testing.T) {
		in(t, noon.Add(5*time.Hour), func(b *fixture, k *fakeKeeper) {
			require.Equal(t, noon.Add(3*time.Hour), b.attach().StartedAt())
			k.start = noon
			require.Equal(t, noon.Add(3*time.Hour), b.attach().StartedAt())
		})
	})
	t.Run("nothing is guarded while the keeper cannot say", func(t *testing.T) {
		in(t, noon, func(b *fixture, k *fakeKeeper) {
			k.failStart = errDiskFull
			_, err := watchdog.New(context.Background(), b.run, b.cfg)
			require.ErrorIs(t, err, errDiskFull)
			require.ErrorContains(t, err, "look up when run s-1 began: ask its keeper: ")
			require.Zero(t, b.store.appends)
		})
	})
}

// TestLaterStart protects a host that passes a start of now each time that it comes up from not being told.
func TestLaterStart(t *testing.T) {
	runContinuing(t, "of a run that was stopped and never resumed", func(c *continuing) {
		log := c.logged()
		c.run.StartedAt = noon
		_, stop := c.restarts(time.Hour)
		require.NotNil(c.t, stop)
		require.NotContains(c.t, log.String(), "begins again")
		c.pass(time.Hour)
		c.run.StartedAt = c.clock.Now()
		c.live(c.attach())
		require.Regexp(c.t, `level=WARN msg="a run that was stopped begins again: .* call Resume .* run=s-1 `+
			`start=2026-05-01T18:00:00.* earlier=2026-05-01T12:00:00.* stop=watchdog_wall_clock_exceeded`, log.String())
	})
	runContinuing(t, "of a run that goes on, whether the store keeps its start or other events tell of it", func(c *continuing) {
		for _, begun := range []func(){
			func() {},
			func() { require.NoError(c.t, c.attach().Extend(time.Minute)) },
		} {
			c.run.StartedAt = time.Time{}
			require.NoError(c.t, c.attach().Close())
			begun()
			log := c.logged()
			c.pass(2 * time.Hour)
			c.run.StartedAt = c.clock.Now()
			require.NoError(c.t, c.attach().Close())
			require.Regexp(c.t, `level=WARN msg="a run begins again: .* leave StartedAt out, .* run=s-1 start=.* `+
				`earlier=2026-05-01T12:00:00`, log.String())
		}
	})
	runContinuing(t, "a start that is the stored one or before it is no news, nor is a resume", func(c *continuing) {
		log := c.logged()
		require.NoError(c.t, c.attach().Close())
		for _, start := range []time.Time{noon, noon.Add(999 * time.Millisecond), noon.Add(-time.Minute)} {
			c.run.StartedAt = start
			require.NoError(c.t, c.attach().Close())
		}
		c.run.StartedAt = noon
		_, stop := c.restarts(time.Hour)
		require.NotNil(c.t, stop)
		resumed := c.resume()
		require.NoError(c.t, resumed.Close())
		c.run.StartedAt = resumed.StartedAt()
		require.NoError(c.t, c.attach().Close())
		require.NotContains(c.t, log.String(), "begins again")
	})
}

// TestStoredStartAlone checks runs whose store is not asked.
func TestStoredStartAlone(t *testing.T) {
	runFixture(t, "without a store the run begins now", func(b *fixture) {
		b.cfg.Store, b.run = nil, watchdog.Run{ID: "s-1"}
		require.Equal(b.t, noon, b.attach().StartedAt())
	})
	runFixture(t, "nothing is recorded for a run that is disabled", func(b *fixture) {
		b.cfg.Disabled, b.run = true, watchdog.Run{ID: "s-1"}
		b.store.set(func(s *flakyStore) { s.fail, s.failGet = errDiskFull, errDiskFull })
		require.Equal(b.t, noon, b.attach().StartedAt())
	})
}

// waits returns a run whose ladder ends in a wait, after so many stretches that are too long, of a minute each.
func waits(b *fixture, store watchdog.EventStore, stretches int) *watchdog.Watchdog {
	b.cfg.Store, b.cfg.PollOnly = store, true
	b.cfg.Budget = watchdog.Budget{
		WallClock: watchdog.NoLimit, Idle: minute, Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveWait, 1)},
	}
	wd := b.attach()
	for range stretches {
		b.clock.Add(minute + time.Microsecond)
		_, asked := wd.Poll()
		require.True(b.t, asked)
		wd.Progress()
		wd.Fired() // records that
	}
	return wd
}

// eventsOf counts the events of the run.
func eventsOf(t *testing.T, store *watchdog.Memory) (n int) {
	t.Helper()
	events, err := store.Read(context.Background(), event.AggregateType, "s-1")
	require.NoError(t, err)
	return len(events)
}

// TestReads protects that a window is read once: an attach reads it, and a sync and a trip what is new.
func TestReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the mock clock sleeps
		read := func(stretches int) (attach, resync, trip int) {
			store := &countingStore{}
			b := newFixture(t)
			wd := waits(b, store, stretches)
			store.read = 0
			b.attach()
			attach, store.read = store.read, 0
			synced(t, wd)
			resync, store.read = store.read, 0
			cancelRun(t, wd, watchdog.Cancellation{Reason: "host_gone"})
			t.Logf("%d events: New reads %d, Sync %d, a trip %d", eventsOf(t, &store.Memory), attach, resync, store.read)
			return attach, resync, store.read
		}
		for _, stretches := range []int{4, 40, 400, 2000} {
			attach, resync, trip := read(stretches)
			require.Equal(t, 3*stretches, attach)
			require.LessOrEqual(t, resync, 2*journal.Much)
			require.LessOrEqual(t, trip, 2*journal.Much)
		}
	})
}

// TestReadsNoOlderWindows protects what an attach reads of a run that was resumed a thousand times.
func TestReadsNoOlderWindows(t *testing.T) {
	inContinuing(t, func(c *continuing) {
		c.cfg.Budget.WallClock = time.Hour
		require.NoError(c.t, c.attach().Close())
		for range 1000 {
			c.pass(2 * time.Hour)
			require.NoError(c.t, c.resume().Close())
		}
		c.pass(2 * time.Hour)
		last := c.resume()
		require.NoError(c.t, last.Close())
		c.pass(time.Minute)
		counts, partly := c.store.(*countingStore)
		for _, run := range []watchdog.Run{c.run, {ID: "s-1", StartedAt: last.StartedAt()}, {ID: "s-1", StartedAt: noon}} {
			if c.run = run; partly {
				counts.read = 0
			}
			again := c.attach()
			require.Equal(c.t, last.StartedAt(), again.StartedAt())
			require.NoError(c.t, again.Close())
			if partly {
				require.LessOrEqual(c.t, counts.read, 10)
			}
		}
	})
}

// TestReadsBesides protects that what other programs store is read, dated up to an hour ago, and an end whatever its
// date.
func TestReadsBesides(t *testing.T) {
	bubble := func(name string, test func(t *testing.T)) { // the mock clock sleeps
		runSynced(t, name, test)
	}
	bubble("a pause of a process whose store was away for longer than that", func(t *testing.T) {
		b := newFixture(t)
		store := &tripStore{}
		b.cfg.Store = store
		cut := b.attach()
		waits(b, &store.Memory, 1)
		beside := waits(b, &store.Memory, 1)
		store.leave(true)
		h := openHold(t, cut, "approval", watchdog.HoldLimit{Cap: 10 * time.Hour, PausesWallClock: true})
		b.pass(20 * time.Minute)
		h.Close()
		for range 200 {
			b.pass(minute + time.Microsecond)
			beside.Poll()
			beside.Progress()
			beside.Fired() // records that
		}
		store.leave(false)
		b.pass(time.Minute)
		require.Equal(t, 1, countEvents(t, store, event.Release))
		again := b.attach()
		require.Equal(t, 20*time.Minute, handle.Of(again.Context()).State().Paused)
		require.NoError(t, cut.Close())
	})
	bubble("an unreadable event is not passed over with what was read before", func(t *testing.T) {
		b, store := newFixture(t), &countingStore{}
		wd := waits(b, store, 300)
		require.NoError(t, store.Append(context.Background(), watchdog.Event{
			ID: "damaged", AggregateType: event.AggregateType, AggregateID: "s-1", Type: event.Extend,
			Timestamp: b.clock.Now(), Payload: json.RawMessage(`{"session_started_at":7}`),
		}))
		for range 40 {
			b.clock.Add(minute + time.Microsecond)
			wd.Poll()
			wd.Progress()
			wd.Fired()
		}
		_, err := watchdog.New(context.Background(), b.run, b.cfg)
		require.ErrorIs(t, err, watchdog.ErrUnreadableEvent)
		_, err = wd.Sync(context.Background())
		require.ErrorIs(t, err, watchdog.ErrUnreadableEvent)
	})
}

// TestReadsNothing protects that a run which is old fails as a young one does if its store cannot be read.
func TestReadsNothing(t *testing.T) {
	for _, age := range []time.Duration{minute, 3 * time.Hour} {
		inFixture(t, func(b *fixture) {
			store := &countingStore{}
			b.cfg.Store = store
			wd := b.attach()
			b.pass(age)
			store.fail = errDiskFull
			_, err := wd.Sync(b.t.Context())
			require.EqualError(t, err, "sync run "+b.run.ID+" with its events: read events: disk full")
		})
	}
}
