package watchdog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/replay"
	"github.com/seed62658d38/watchdog/session"
)

var approval = watchdog.HoldLimit{Cap: 24 * time.Hour, PausesWallClock: true}

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
	runFixture(t, "in a run that is only observed not beyond its cap", func(b *fixture) {
		b.cfg.Budget, b.cfg.ObserveOnly = watchdog.Budget{WallClock: time.Hour}, true
		wd := b.attach()
		_, err := wd.Hold(context.Background(), "approval", approval)
		require.NoError(b.t, err)
		b.pass(3*time.Hour + 30*time.Minute)
		require.Equal(b.t, 30*time.Minute, wd.Remaining())
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
	runFixture(t, "it needs a cap", func(b *fixture) {
		for _, limit := range []watchdog.HoldLimit{{PausesWallClock: true}, {PausesWallClock: true, Cap: watchdog.NoLimit}} {
			_, err := b.attach().Hold(context.Background(), "approval", limit)
			require.ErrorIs(b.t, err, watchdog.ErrInvalid)
			require.ErrorContains(b.t, err, "Cap")
		}
	})
}

// approve opens a hold that stops the wall clock of the run.
func approve(t *testing.T, wd *watchdog.Watchdog, limit time.Duration) *watchdog.Hold {
	t.Helper()
	h, err := wd.Hold(context.Background(), "approval "+limit.String(), watchdog.HoldLimit{Cap: limit, PausesWallClock: true})
	require.NoError(t, err)
	return h
}

// TestPauseOfLayers has what is inside a run stand still with it: what is left of a layer is left of its run.
func TestPauseOfLayers(t *testing.T) {
	hour := watchdog.Config{Budget: watchdog.Budget{WallClock: time.Hour}}
	step := watchdog.Budget{WallClock: 10 * minute}
	// each has the layer made, the run stand still for an hour, and 10 minutes left of the layer then.
	for name, pause := range map[string]func(wd *watchdog.Watchdog) (layer *watchdog.Watchdog){
		"a layer of a layer": func(wd *watchdog.Watchdog) *watchdog.Watchdog {
			around := openLayer(t, wd, "around", watchdog.Budget{})
			h := approve(t, wd, 24*time.Hour)
			after(30 * minute)
			layer := openLayer(t, around, "step", step)
			after(30 * minute)
			require.True(t, h.Close())
			return layer
		},
		"a layer beside the one of the hold": func(wd *watchdog.Watchdog) *watchdog.Watchdog {
			layer := openLayer(t, wd, "step", step)
			beside := openLayer(t, openLayer(t, wd, "around", watchdog.Budget{}), "beside", watchdog.Budget{})
			h := approve(t, beside, 24*time.Hour)
			after(time.Hour)
			require.True(t, h.Close())
			require.NoError(t, beside.Close())
			return layer
		},
		"the cap ends the pause of both": func(wd *watchdog.Watchdog) *watchdog.Watchdog {
			layer := openLayer(t, wd, "step", step)
			_, err := wd.Hold(context.Background(), "approval", watchdog.HoldLimit{Cap: time.Hour, PausesWallClock: true})
			require.NoError(t, err)
			after(time.Hour)
			return layer
		},
	} {
		runBubble(t, name, hour, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
			layer := pause(wd)
			require.Equal(t, 10*minute, layer.Remaining())
			if name == "the cap ends the pause of both" { // which ends the run, too
				return
			}
			require.Equal(t, time.Hour, wd.Remaining())
			after(10 * minute)
			requireRunning(t, layer)
			after(time.Millisecond)
			stop := requireStop(t, layer, watchdog.WallClockExceeded)
			require.Equal(t, 10*minute, stop.Elapsed.Truncate(time.Millisecond))
			requireRunning(t, wd)
		})
	}
}

// TestPauseOfManyLayers has pauses of many layers leave nothing behind.
func TestPauseOfManyLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{Budget: watchdog.Budget{WallClock: time.Hour}, Logger: quiet})
		require.NoError(t, err)
		defer wd.Close()
		var layers []*watchdog.Watchdog
		for range 100 {
			layers = append(layers, openLayer(t, wd, "step", watchdog.Budget{}))
		}
		for _, layer := range layers {
			h := approve(t, layer, time.Hour)
			after(time.Minute)
			require.True(t, h.Close())
		}
		for _, layer := range layers {
			require.Equal(t, wd.Remaining(), layer.Remaining())
			require.NoError(t, layer.Close())
		}
		require.Equal(t, time.Hour, wd.Remaining())
	})
}

// An awayStore is a database of events and sessions that can be away: it fails, or is hung until it is back.
type awayStore struct {
	session.Memory
	flaky flakyStore
}

func (s *awayStore) Append(ctx context.Context, events ...watchdog.Event) error {
	if err := s.flaky.Append(ctx); err != nil {
		return err
	}
	return s.Memory.Append(context.WithoutCancel(ctx), events...)
}

func (s *awayStore) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	if err := s.flaky.Append(ctx); err != nil {
		return err
	}
	return s.Memory.Transact(context.WithoutCancel(ctx), exchanges...)
}

// leave has the store away, and returns what brings it back.
func (s *awayStore) leave(hangs bool) (back func()) {
	hang := make(chan struct{})
	s.flaky.set(func(f *flakyStore) {
		if f.fail = errDiskFull; hangs {
			f.fail, f.hang = nil, hang
		}
	})
	return func() {
		s.flaky.set(func(f *flakyStore) { f.fail, f.hang = nil, nil })
		close(hang)
	}
}

// A pauseHistory is a run of an hour with a timer, whose holds stop the wall clock and whose store comes and goes. Beside
// it are the pauses as one would count them: nothing of them depends on the store.
type pauseHistory struct {
	t     *testing.T
	rng   *rand.Rand
	begun time.Time
	wd    *watchdog.Watchdog
	store *awayStore
	back  func() // nil while the store is there
	hung  bool
	holds map[string]*watchdog.Hold
	open  map[string]int // into pauses
	all   []modelPause
	trace []watchdog.Signal
}

// TestPauseHistories has nobody poll while pauses begin and end and the store is away: the run ends in the moment that
// its own pauses say, with one cancel, and when the store is back it has all of them, for others to count alike.
func TestPauseHistories(t *testing.T) {
	for seed := range racing.Rounds[uint64](250, 5000) {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &pauseHistory{
					t: t, rng: rand.New(rand.NewPCG(seed, 22)), begun: time.Now(), store: &awayStore{},
					holds: map[string]*watchdog.Hold{}, open: map[string]int{},
				}
				h.live()
			})
		}) {
			return
		}
	}
}

// record traces the run.
func (h *pauseHistory) record(s watchdog.Signal) { h.trace = append(h.trace, s) }

func (h *pauseHistory) attach(onSignal func(watchdog.Signal)) *watchdog.Watchdog {
	cfg := watchdog.Config{
		Store: h.store, Logger: quiet, Budget: watchdog.Budget{WallClock: time.Hour}, OnSignal: onSignal,
	}
	wd, err := watchdog.New(h.t.Context(), watchdog.Run{ID: "s-1", StartedAt: h.begun}, cfg)
	require.NoError(h.t, err)
	return wd
}

func (h *pauseHistory) live() {
	h.wd = h.attach(h.record)
	defer h.wd.Close()
	defer h.comeBack()
	ended := false
	for range 40 {
		if ended = h.step(); ended {
			break
		}
	}
	h.comeBack()
	if !ended {
		ended = h.pass(31 * time.Second)
	}
	time.Sleep(31 * time.Second)
	h.compare(ended)
	require.NoError(h.t, h.wd.Close())
}

func (h *pauseHistory) step() (ended bool) {
	key := string(rune('a' + h.rng.IntN(3)))
	switch n := h.rng.IntN(10); {
	case n < 3 && h.holds[key] == nil:
		h.begin(key)
	case n < 5 && h.holds[key] != nil:
		require.True(h.t, h.holds[key].Close())
		i := h.open[key]
		h.all[i].closed, h.all[i].released = true, time.Since(h.begun)
		delete(h.holds, key)
		delete(h.open, key)
	case n < 7:
		h.outage()
	default:
		most := 10 * time.Minute
		if h.rng.IntN(2) == 0 {
			most = 10 * time.Second
		}
		return h.pass(time.Duration(h.rng.Int64N(int64(most))).Truncate(time.Millisecond) + time.Millisecond)
	}
	return false
}

func (h *pauseHistory) begin(key string) {
	limit := watchdog.HoldLimit{Cap: time.Duration(1+h.rng.IntN(60)) * time.Minute, PausesWallClock: true}
	hold, err := h.wd.Hold(h.t.Context(), key, limit)
	require.NoError(h.t, err)
	h.open[key], h.holds[key] = len(h.all), hold
	h.all = append(h.all, modelPause{key: key, opened: time.Since(h.begun), limit: limit.Cap})
}

func (h *pauseHistory) comeBack() {
	if h.back != nil {
		h.back()
		h.back = nil
	}
}

func (h *pauseHistory) outage() {
	if h.back != nil {
		h.comeBack()
		return
	}
	h.hung = h.rng.IntN(2) == 0
	ignores := h.rng.IntN(2) == 0
	h.store.flaky.set(func(s *flakyStore) { s.ignoresContext = ignores })
	h.back = h.store.leave(h.hung)
}

// ends is when the run ends if nothing happens before, and by what.
func (h *pauseHistory) ends() (at time.Duration, code watchdog.StopReason) {
	from, to := time.Duration(0), 1000*time.Hour
	for from < to {
		if middle := (from + to) / 2; middle-pausedBefore(h.all, middle) > time.Hour {
			to = middle
		} else {
			from = middle + 1
		}
	}
	at, code = from, watchdog.WallClockExceeded
	for _, p := range h.all {
		if over := p.opened + p.limit + 1; !p.closed && over < at {
			at, code = over, watchdog.HoldExceeded
		}
	}
	return at, code
}

// pass lets time pass, and looks at the run in the moment in which it is to end.
func (h *pauseHistory) pass(d time.Duration) (ended bool) {
	at, code := h.ends()
	until := time.Since(h.begun) + d
	if until < at {
		time.Sleep(d)
		synctest.Wait()
		require.NoError(h.t, h.wd.Context().Err(), "at %v of %v", until, at)
		return false
	}
	time.Sleep(at - 1 - time.Since(h.begun))
	synctest.Wait()
	require.NoError(h.t, h.wd.Context().Err(), "a nanosecond before %v", at)
	time.Sleep(time.Nanosecond)
	if h.back != nil && h.hung {
		time.Sleep(watchdog.DefaultRecordTimeout)
	}
	synctest.Wait()
	require.Equal(h.t, code, h.stop().Code)
	require.Equal(h.t, pausedBefore(h.all, at).Truncate(time.Microsecond), h.stop().Paused)
	decided, err := replay.Run(watchdog.Budget{WallClock: time.Hour}, h.trace, false)
	require.NoError(h.t, err)
	require.Equal(h.t, at, decided[len(decided)-1].At, "the trace of it")
	require.Equal(h.t, code, decided[len(decided)-1].Reason)
	return true
}

// stop is that of the run, which is not polled for it.
func (h *pauseHistory) stop() (stop *watchdog.Stop) {
	require.ErrorAs(h.t, context.Cause(h.wd.Context()), &stop)
	return stop
}

// compare looks at what the store has after it was back for a while.
func (h *pauseHistory) compare(ended bool) {
	released := 0
	for _, p := range h.all {
		if p.closed {
			released++
		}
	}
	require.Equal(h.t, len(h.all), countEvents(h.t, h.store, watchdog.EventHold))
	require.Equal(h.t, released, countEvents(h.t, h.store, watchdog.EventRelease))
	other := h.attach(nil)
	defer other.Close()
	if ended {
		require.Equal(h.t, 1, countEvents(h.t, h.store, watchdog.EventCancel))
		require.Equal(h.t, h.stop(), other.Stop())
	} else if h.wd.Context().Err() == nil {
		require.Equal(h.t, h.wd.Remaining(), other.Remaining())
	}
}
