package watchdog_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
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

// TestPauseThatEnds has a run end at its limit, also while its host is stuck, after a hold was closed that stopped the
// wall clock: when the hold is closed its event is not stored, so that the limit is as far away as the hold's cap.
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
