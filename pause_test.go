package watchdog_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/replay"
)

var approval = watchdog.HoldLimit{Cap: 24 * time.Hour, PausesWallClock: true}

// A slowStore takes its time for each append.
type slowStore struct {
	watchdog.Memory
	delay time.Duration
}

func (s *slowStore) Append(ctx context.Context, events ...watchdog.Event) error {
	time.Sleep(s.delay)
	return s.Memory.Append(ctx, events...)
}

// An ownWay is one process's way to a store that it shares with others.
type ownWay struct {
	flakyStore
	to watchdog.EventStore
}

func (s *ownWay) Append(ctx context.Context, events ...watchdog.Event) error {
	if err := s.flakyStore.Append(ctx); err != nil {
		return err
	}
	return s.to.Append(ctx, events...)
}

func (s *ownWay) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	return s.to.Read(ctx, aggregateType, aggregateID)
}

// TestPauseThatEnds has a run end at its limit, also while its host is stuck, after a hold was closed that stopped the
// wall clock: until then the limit is as far away as the hold's cap.
func TestPauseThatEnds(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, wd *watchdog.Watchdog) *watchdog.Hold{
		"of the run's own": func(t *testing.T, wd *watchdog.Watchdog) *watchdog.Hold {
			h, err := wd.Hold(t.Context(), "approval", approval)
			require.NoError(t, err)
			return h
		},
		"of a layer": func(t *testing.T, wd *watchdog.Watchdog) *watchdog.Hold {
			step, err := wd.Layer("step", watchdog.Budget{})
			require.NoError(t, err)
			h, err := step.Hold(t.Context(), "approval", approval)
			require.NoError(t, err)
			return h
		},
	} {
		for _, delay := range []time.Duration{0, time.Second} {
			t.Run(name+", the store takes "+delay.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					begun := time.Now()
					wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: begun}, watchdog.Config{
						Store: &slowStore{delay: delay}, Logger: quiet, Budget: watchdog.Budget{WallClock: time.Hour},
					})
					require.NoError(t, err)
					defer wd.Close()
					h := open(t, wd)
					time.Sleep(10 * minute)
					require.True(t, h.Close())
					time.Sleep(minute)
					<-wd.Context().Done()
					require.Equal(t, 70*minute, time.Since(begun).Truncate(time.Millisecond))
				})
			})
		}
	}
}

// TestManyPausesThatEnd closes more holds at one moment than entries wait for a store that is not at once done with the
// first. That a hold has ended must not be dropped: its pause would last until its cap.
func TestManyPausesThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: begun}, watchdog.Config{
			Store: &slowStore{delay: 10 * time.Millisecond}, Logger: quiet, Budget: watchdog.Budget{WallClock: time.Hour},
		})
		require.NoError(t, err)
		defer wd.Close()
		var holds []*watchdog.Hold
		for i := range 1000 {
			h, err := wd.Hold(t.Context(), strconv.Itoa(i), approval)
			require.NoError(t, err)
			holds = append(holds, h)
			if i%50 == 0 {
				time.Sleep(time.Second)
			}
		}
		time.Sleep(10 * minute)
		for _, h := range holds {
			h.Close()
		}
		paused := time.Since(begun)
		<-wd.Context().Done()
		require.Equal(t, time.Hour+paused, time.Since(begun).Truncate(time.Millisecond))
	})
}

// TestPausedWallClock protects that a person's approval does not use up the run's time, and that a hold which stops the
// wall clock is bounded, recorded and found again.
func TestPausedWallClock(t *testing.T) {
	approval := watchdog.HoldLimit{Cap: 3 * time.Hour, PausesWallClock: true}
	inPause := func(t *testing.T, test func(b *fixture, wd *watchdog.Watchdog, h *watchdog.Hold)) {
		t.Helper()
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: time.Hour, Reserve: 10 * time.Minute}
			wd := b.attach()
			b.pass(30 * time.Minute)
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			synctest.Wait()
			test(b, wd, h)
		})
	}
	t.Run("it stands still while the hold is open", func(t *testing.T) {
		inPause(t, func(b *fixture, wd *watchdog.Watchdog, h *watchdog.Hold) {
			b.pass(2 * time.Hour)
			require.Equal(b.t, 20*time.Minute, wd.Remaining())
			require.Equal(b.t, 150*time.Minute, wd.Elapsed())
			require.True(b.t, h.Close())
			synctest.Wait()
			b.pass(30 * time.Minute)
			require.Equal(b.t, []watchdog.DirectiveKind{watchdog.DirectiveWrapUp}, askedOf(wd))
			b.live(wd)
			b.pass(1)
			stop := b.stopped(wd)
			require.Equal(b.t, time.Hour, stop.Elapsed.Truncate(time.Second))
			require.Equal(b.t, 2*time.Hour, stop.Paused)
			require.Contains(b.t, string(b.events(watchdog.EventCancel)[0].Payload), `"paused_seconds":7200`)
			require.Equal(b.t, stop, b.attach().Stop())
		})
	})
	t.Run("for its cap at most, which trips by itself", func(t *testing.T) {
		inPause(t, func(b *fixture, wd *watchdog.Watchdog, _ *watchdog.Hold) {
			b.pass(3*time.Hour + 1)
			require.Equal(b.t, watchdog.HoldExceeded, wd.Stop().Code)
			require.Equal(b.t, "approval", wd.Stop().Hold)
		})
	})
	t.Run("in a run that is only observed not beyond its cap", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget, b.cfg.ObserveOnly = watchdog.Budget{WallClock: time.Hour}, true
			wd := b.attach()
			_, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(3*time.Hour + 30*time.Minute)
			require.Equal(b.t, 30*time.Minute, wd.Remaining())
		})
	})
	t.Run("safety goes on", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: time.Hour, Safety: 2 * time.Hour}
			wd := b.attach()
			_, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(2*time.Hour + 1)
			require.Equal(b.t, watchdog.SafetyExceeded, wd.Stop().Code)
		})
	})
	t.Run("several at once count once", func(t *testing.T) {
		inPause(t, func(b *fixture, wd *watchdog.Watchdog, h *watchdog.Hold) {
			b.pass(time.Hour)
			second, err := wd.Hold(context.Background(), "second", approval)
			require.NoError(b.t, err)
			b.pass(time.Hour)
			h.Close()
			b.pass(time.Hour)
			second.Close()
			synctest.Wait()
			require.Equal(b.t, 20*time.Minute, wd.Remaining())
			require.Len(b.t, b.events(watchdog.EventHold), 2)
			require.Len(b.t, b.events(watchdog.EventRelease), 2)
		})
	})
	for name, crash := range map[string]bool{"a crash": true, "a close": false} {
		t.Run("after "+name+" the hold is open, and whoever opens it again takes it over", func(t *testing.T) {
			inPause(t, func(b *fixture, wd *watchdog.Watchdog, _ *watchdog.Hold) {
				b.pass(30 * time.Minute)
				wd = b.restartAfter(wd, time.Hour, crash)
				require.Equal(b.t, 20*time.Minute, wd.Remaining(), "the time the process was gone is paused, too")
				h, err := wd.Hold(context.Background(), "approval", watchdog.HoldLimit{Cap: 9 * time.Hour})
				require.NoError(b.t, err)
				_, err = wd.Hold(context.Background(), "approval", approval)
				require.ErrorIs(b.t, err, watchdog.ErrHeld)
				b.pass(time.Hour)
				require.True(b.t, h.Close())
				require.False(b.t, h.Close())
				synctest.Wait()
				b.pass(10 * time.Minute)
				require.Equal(b.t, 10*time.Minute, wd.Remaining())
				wd = b.restartAfter(wd, 5*time.Minute, crash)
				require.Equal(b.t, 5*time.Minute+10*time.Minute, b.cfg.Budget.WallClock-45*time.Minute)
				require.Equal(b.t, 5*time.Minute, wd.Remaining(), "less the reserve")
			})
		})
		t.Run("after "+name+" its cap trips as ever if nobody does", func(t *testing.T) {
			inPause(t, func(b *fixture, wd *watchdog.Watchdog, _ *watchdog.Hold) {
				wd = b.restartAfter(wd, time.Hour, crash)
				b.pass(2 * time.Hour)
				require.Nil(b.t, wd.Stop())
				b.pass(1)
				require.Equal(b.t, watchdog.HoldExceeded, wd.Stop().Code)
				require.Equal(b.t, 3*time.Hour+1, wd.Stop().Elapsed.Round(0)+1)
			})
		})
	}
	t.Run("it counts at once in its own process, and for others once the store has it", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: time.Hour}
			wd, other := b.attach(), b.attach()
			b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(30 * time.Minute)
			require.Equal(b.t, time.Hour, wd.Remaining())
			_, err = other.Sync(b.t.Context())
			require.NoError(b.t, err)
			require.Equal(b.t, 30*time.Minute, other.Remaining())
			b.store.set(func(s *flakyStore) { s.fail = nil })
			wd.Fired() // tries again
			synctest.Wait()
			_, err = other.Sync(b.t.Context())
			require.NoError(b.t, err)
			require.Equal(b.t, time.Hour, other.Remaining())
			b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
			require.True(b.t, h.Close())
			b.pass(20 * time.Minute)
			require.Equal(b.t, 40*time.Minute, wd.Remaining())
			_, err = wd.Sync(b.t.Context())
			require.NoError(b.t, err)
			require.Equal(b.t, 40*time.Minute, wd.Remaining(), "what the store has of its own pause is older")
			_, err = other.Sync(b.t.Context())
			require.NoError(b.t, err)
			require.Equal(b.t, time.Hour, other.Remaining())
		})
	})
	t.Run("that another process took it over and closed it does not end it in its own", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: time.Hour}
			wd := b.attach()
			_, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			synctest.Wait()
			other := b.attach()
			taken, err := other.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(time.Minute)
			require.True(b.t, taken.Close())
			b.pass(30 * time.Minute)
			for _, process := range []*watchdog.Watchdog{wd, other} {
				_, err = process.Sync(b.t.Context())
				require.NoError(b.t, err)
			}
			require.Equal(b.t, time.Hour, wd.Remaining())
			require.Equal(b.t, 30*time.Minute, other.Remaining())
		})
	})
	t.Run("a stop that another process stored before it had the pause stands", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: time.Hour}
			own := &ownWay{to: b.store}
			b.cfg.Store = own
			wd := b.attach()
			b.cfg.Store = b.store
			other := b.attach()
			own.set(func(s *flakyStore) { s.fail = errDiskFull })
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(time.Hour + 1)
			require.Equal(b.t, watchdog.WallClockExceeded, other.Stop().Code)
			b.live(wd)
			h.Close()
			own.set(func(s *flakyStore) { s.fail = nil })
			b.pass(time.Hour)
			require.Equal(b.t, other.Stop(), b.stopped(wd), "its own trip found it")
			require.Len(b.t, b.events(watchdog.EventCancel), 1)
		})
	})
	t.Run("another process's limit yields to it", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: time.Hour}
			wd, other := b.attach(), b.attach()
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(2 * time.Hour)
			b.live(other)
			require.Equal(b.t, time.Hour, other.Remaining())
			h.Close()
			synctest.Wait()
			b.pass(time.Hour + 1)
			stop, err := other.Sync(b.t.Context())
			require.NoError(b.t, err)
			require.Equal(b.t, watchdog.WallClockExceeded, stop.Code)
			require.Equal(b.t, wd.Stop(), stop)
		})
	})
	t.Run("nor does its cap end a run in which its own process closed it", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: 10 * time.Hour}
			wd := b.attach()
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			synctest.Wait()
			late, synced := b.attach(), b.attach()
			b.pass(time.Hour)
			require.True(b.t, h.Close())
			synctest.Wait()
			_, err = synced.Sync(b.t.Context())
			require.NoError(b.t, err)
			require.NoError(b.t, wd.Close())
			b.pass(2*time.Hour + 1)
			require.Equal(b.t, late.Remaining(), synced.Remaining())
			for _, other := range []*watchdog.Watchdog{late, synced} {
				b.live(other)
				again, err := other.Hold(context.Background(), "approval", watchdog.HoldLimit{Cap: time.Minute})
				require.NoError(b.t, err, "it is not open there any more")
				require.True(b.t, again.Close())
			}
			require.Empty(b.t, b.events(watchdog.EventCancel))
		})
	})
	t.Run("but if it is still open, or was taken over, it does", func(t *testing.T) {
		for name, takesOver := range map[string]bool{"open": false, "taken over": true} {
			t.Run(name, func(t *testing.T) {
				inFixture(t, func(b *fixture) {
					b.cfg.Budget = watchdog.Budget{WallClock: 10 * time.Hour}
					wd := b.attach()
					h, err := wd.Hold(context.Background(), "approval", approval)
					require.NoError(b.t, err)
					synctest.Wait()
					other := b.attach()
					if takesOver {
						_, err = other.Hold(context.Background(), "approval", approval)
						require.NoError(b.t, err)
						require.True(b.t, h.Close())
					}
					b.pass(3*time.Hour + 1)
					require.Equal(b.t, watchdog.HoldExceeded, other.Stop().Code)
				})
			})
		}
	})
	t.Run("a trip finds in the store what the process counts, to the nanosecond", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: time.Hour}
			wd := b.attach()
			b.pass(time.Minute + 700)
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(time.Minute + 700)
			h.Close()
			b.pass(2 * time.Hour)
			require.Equal(b.t, watchdog.WallClockExceeded, wd.Stop().Code)
		})
	})
	t.Run("of two processes that close it each counts its own close, and others what the store has first", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget, b.cfg.PollOnly = watchdog.Budget{WallClock: time.Hour}, true
			wd := b.attach()
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			other := b.attach()
			taken, err := other.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(time.Minute)
			b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
			h.Close()
			b.pass(time.Minute)
			b.store.set(func(s *flakyStore) { s.fail = nil })
			taken.Close()
			b.pass(59 * time.Minute)
			third := b.attach()
			require.Equal(b.t, time.Minute, third.Remaining())
			require.Equal(b.t, time.Minute, other.Remaining())
			b.live(wd)
			b.pass(1)
			require.Equal(b.t, time.Minute, b.stopped(wd).Paused)
			_, err = third.Sync(b.t.Context())
			require.NoError(b.t, err)
			require.Equal(b.t, wd.Stop(), third.Stop())
			require.Len(b.t, b.events(watchdog.EventCancel), 1)
			require.Len(b.t, b.events(watchdog.EventRelease), 1)
		})
	})
	t.Run("it needs a cap", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			for _, limit := range []watchdog.HoldLimit{{PausesWallClock: true}, {PausesWallClock: true, Cap: watchdog.NoLimit}} {
				_, err := b.attach().Hold(context.Background(), "approval", limit)
				require.ErrorIs(b.t, err, watchdog.ErrInvalid)
				require.ErrorContains(b.t, err, "Cap")
			}
		})
	})
	t.Run("that of a layer pauses the run around it, and ends with the layer", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: 2 * time.Hour}
			wd := b.attach()
			step, err := wd.Layer("step", watchdog.Budget{WallClock: time.Hour})
			require.NoError(b.t, err)
			_, err = step.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(2*time.Hour + 30*time.Minute)
			require.Equal(b.t, time.Hour, step.Remaining())
			require.Equal(b.t, 2*time.Hour, wd.Remaining())
			crashed := copyOf(b.t, b.store)
			require.NoError(b.t, step.Close())
			synctest.Wait()
			b.pass(30 * time.Minute)
			require.Equal(b.t, 90*time.Minute, wd.Remaining())

			b.store, b.cfg.Store = crashed, crashed // a crash before the layer was closed
			wd = b.attach()
			require.Equal(b.t, 2*time.Hour, wd.Remaining(), "the layer's process may live: up to the cap")
			b.pass(30 * time.Minute)
			require.Equal(b.t, 90*time.Minute, wd.Remaining())
			b.live(wd)
			require.Empty(b.t, b.events(watchdog.EventRelease))
		})
	})
	t.Run("that of a layer which lives goes on when another process attaches", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: 2 * time.Hour}
			wd := b.attach()
			step, err := wd.Layer("step", watchdog.Budget{})
			require.NoError(b.t, err)
			_, err = step.Hold(context.Background(), "approval", watchdog.HoldLimit{Cap: 9 * time.Hour, PausesWallClock: true})
			require.NoError(b.t, err)
			b.pass(time.Hour)
			other := b.attach()
			b.pass(7 * time.Hour)
			b.live(wd)
			b.live(other)
			require.Equal(b.t, 2*time.Hour, other.Remaining())
			again, err := other.Layer("step", watchdog.Budget{})
			require.NoError(b.t, err)
			taken, err := again.Hold(context.Background(), "approval", watchdog.HoldLimit{Cap: time.Hour, PausesWallClock: true})
			require.NoError(b.t, err)
			synctest.Wait()
			require.True(b.t, taken.Close())
			synctest.Wait()
			b.pass(time.Hour)
			require.Equal(b.t, time.Hour, other.Remaining(), "it was taken over, and is closed")
		})
	})
	t.Run("a trace of it replays", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{
				WallClock: time.Hour, Reserve: 10 * time.Minute, Idle: 20 * time.Minute,
				Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{retry, retry, retry, retry}},
			}
			var trace []watchdog.Signal
			b.cfg.OnSignal = func(s watchdog.Signal) { trace = append(trace, s) }
			var got []time.Duration
			look := func(wd *watchdog.Watchdog) {
				for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
					got = append(got, d.At.Sub(noon))
				}
			}
			wd := b.attach()
			b.pass(25 * time.Minute)
			_, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(time.Hour)
			look(wd)
			wd = b.restartAfter(wd, time.Minute, false)
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(time.Hour)
			h.Close()
			b.pass(time.Hour)
			look(wd)
			decided, err := replay.Run(b.cfg.Budget, trace, false)
			require.NoError(b.t, err, "%v", trace)
			var want []time.Duration
			for _, d := range decided {
				if d.Kind != "" {
					want = append(want, d.At.Truncate(time.Microsecond))
				}
			}
			require.Equal(b.t, want, got)
			require.NotEmpty(b.t, want)
		})
	})
}
