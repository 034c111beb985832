package watchdog_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// canaryPanic is what the host panics with: it must be in no log and no error.
const canaryPanic = "canary-51c0"

// A panickingStore panics when something is appended.
type panickingStore struct{ watchdog.EventStore }

func (panickingStore) Append(context.Context, ...watchdog.Event) error {
	panic(errors.New(canaryPanic))
}

func TestPanicValue(t *testing.T) {
	logged := func(t *testing.T, cfg watchdog.Config, test func(wd *watchdog.Watchdog)) string {
		var log bytes.Buffer
		synctest.Test(t, func(t *testing.T) {
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
			require.NoError(t, err)
			defer wd.Close()
			test(wd)
			synctest.Wait()
		})
		require.NotContains(t, log.String(), canaryPanic)
		return log.String()
	}
	budget := watchdog.Budget{WallClock: time.Hour, Idle: minute, Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveWait, 1)}}
	t.Run("of a callback is not logged; its type is, and where it happened", func(t *testing.T) {
		log := logged(t, watchdog.Config{
			Store: &watchdog.Memory{}, Budget: budget, PollOnly: true,
			OnSignal:  func(watchdog.Signal) { panic(errors.New(canaryPanic)) },
			OnWarning: func(watchdog.Warning) { panic([]string{canaryPanic}) },
		}, func(wd *watchdog.Watchdog) {
			wd.Subscribe(func(watchdog.Directive) { panic(canaryPanic) })
			time.Sleep(50 * minute)
			wd.Fired()
		})
		for _, want := range []string{
			"in=OnSignal panic_type=*errors.errorString", "in=OnWarning panic_type=[]string",
			"in=Subscribe panic_type=string", "secret_test.go",
		} {
			require.Contains(t, log, want)
		}
	})
	t.Run("of a store is in no error and no log; its type is", func(t *testing.T) {
		for _, pollOnly := range []bool{false, true} {
			log := logged(t, watchdog.Config{Store: panickingStore{&watchdog.Memory{}}, Budget: budget, PollOnly: pollOnly},
				func(wd *watchdog.Watchdog) {
					for _, err := range []error{wd.Extend(time.Hour), wd.Interrupt("SIGINT")} {
						require.ErrorContains(t, err, "event store panicked with a *errors.errorString")
						require.NotContains(t, err.Error(), canaryPanic)
					}
				})
			require.NotContains(t, log, canaryPanic)
		}
	})
}

// panickingHandler is a log that fails.
type panickingHandler struct{ slog.Handler }

func (panickingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (panickingHandler) Handle(context.Context, slog.Record) error { panic("log") }

// TestLogThatPanics protects that no log ends the process.
func TestLogThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &flakyStore{}
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
			Store: store, Budget: watchdog.Budget{WallClock: time.Hour},
			Logger:    slog.New(panickingHandler{slog.DiscardHandler}),
			OnWarning: func(watchdog.Warning) { panic("host") },
		})
		require.NoError(t, err)
		store.set(func(s *flakyStore) { s.fail = errDiskFull })
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
		require.ErrorIs(t, wd.Close(), errDiskFull)
	})
}
