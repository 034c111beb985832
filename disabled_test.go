package watchdog_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/watchdogtest"
)

// untouched is a store, a keeper and the host's callbacks of a run that nothing guards: each call fails the test.
type untouched struct{ t *testing.T }

func (u untouched) called(what string) error {
	u.t.Helper()
	u.t.Errorf("%s was called", what)
	return errors.New("it must not be called")
}

func (u untouched) Append(context.Context, ...watchdog.Event) error { return u.called("Append") }

func (u untouched) Read(context.Context, string, string) ([]watchdog.Event, error) {
	return nil, u.called("Read")
}

func (u untouched) Select(context.Context, event.Selection) ([]watchdog.Event, error) {
	return nil, u.called("Select")
}

func (u untouched) Transact(context.Context, ...*event.Exchange) error {
	return u.called("Transact")
}

func (u untouched) Start(context.Context, string) (time.Time, error) {
	return time.Time{}, u.called("Start")
}

func (u untouched) Keep(context.Context, *watchdog.Watchdog) (watchdog.Attempt, error) {
	return watchdog.Attempt{}, u.called("Keep")
}

func (u untouched) Ended(context.Context, *watchdog.Watchdog) { _ = u.called("Ended") }

// timeless is a clock that shows the time and fails the test when a timer is set.
type timeless struct {
	*watchdogtest.MockClock
	t *testing.T
}

func (c timeless) AfterFunc(d time.Duration, f func()) watchdog.Timer {
	c.t.Errorf("AfterFunc(%v) was called", d)
	return c.Mock.AfterFunc(d, f)
}

// switchedOff is a fixture whose every limit is short and whose store, keeper and timers must not be touched.
func switchedOff(t *testing.T) *fixture {
	t.Helper()
	b := newFixture(t)
	b.cfg = watchdog.Config{
		Disabled: true,
		Store:    untouched{t},
		Keeper:   untouched{t},
		Clock:    timeless{b.clock.MockClock, t},
		Logger:   quiet,
		Budget: watchdog.Budget{
			WallClock: time.Second, Safety: time.Second, Idle: time.Second, NoProgress: time.Second, Hold: time.Second,
			Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry}},
		},
		RecordInterrupts: true,
		OnWarning:        func(watchdog.Warning) { t.Error("OnWarning was called") },
	}
	return b
}

// goesOn expects that hours after every limit the run has not fired.
func (b *fixture) goesOn(wd *watchdog.Watchdog) {
	b.t.Helper()
	b.clock.Add(5 * time.Hour)
	b.live(wd)
	require.Equal(b.t, time.Duration(watchdog.NoLimit), wd.Remaining())
	_, asked := wd.Poll()
	require.False(b.t, asked)
}

func TestDisabled(t *testing.T) {
	for name, attach := range map[string]attachFunc{"New": watchdog.New, "Resume": watchdog.Resume} {
		t.Run("nothing fires after "+name+", however long every limit is exceeded", func(t *testing.T) {
			b := switchedOff(t)
			wd, err := attach(t.Context(), b.run, b.cfg)
			require.NoError(t, err)
			require.Equal(t, b.run.StartedAt, wd.StartedAt())
			require.Same(t, wd, watchdog.FromContext(wd.Context()))
			b.goesOn(wd)
			require.Equal(t, 5*time.Hour, wd.Elapsed())
			require.Zero(t, wd.Attempt())
			require.NoError(t, wd.Close())
			require.ErrorIs(t, context.Cause(wd.Context()), watchdog.ErrClosed)
		})
	}
	t.Run("nor on the machine's clock, where no timer is set, nor a goroutine begun", func(t *testing.T) {
		b := switchedOff(t)
		b.cfg.Clock = nil
		b.run.StartedAt = time.Now().Add(-5 * time.Hour)
		before := goroutines()
		for range 100 {
			wd := b.attach()
			wd.Activity()
			wd.Progress()
			b.live(wd)
			require.Equal(t, time.Duration(watchdog.NoLimit), wd.Remaining())
		}
		require.LessOrEqual(t, goroutines(), before)
	})
	t.Run("what is wrong is an error all the same", func(t *testing.T) {
		for name, spoil := range map[string]func(*fixture){
			"run":     func(b *fixture) { b.run.ID = "" },
			"store":   func(b *fixture) { b.cfg.Store = nil },
			"budget":  func(b *fixture) { b.cfg.Budget.Idle = -1 },
			"kinds":   func(b *fixture) { b.cfg.Kinds.Material = []string{""} },
			"timeout": func(b *fixture) { b.cfg.RecordTimeout = -1 },
		} {
			b := switchedOff(t)
			spoil(b)
			_, err := watchdog.New(t.Context(), b.run, b.cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid, name)
		}
	})
	t.Run("the log says once that the run is not guarded", func(t *testing.T) {
		b := switchedOff(t)
		var log bytes.Buffer
		b.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		b.cfg.Budget = watchdog.Budget{WallClock: watchdog.NoLimit}
		layer := openLayer(t, b.attach(), "build", watchdog.Budget{})
		require.NoError(t, layer.Close())
		require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("\n")), "%s", &log)
		require.Contains(t, log.String(), `level=INFO msg="watchdog is disabled and does not guard the run" run=s-1`)
	})
}

// TestDisabledEnds expects that a run that nothing guards ends as its host says, with its layers, and that nothing is
// recorded of it.
func TestDisabledEnds(t *testing.T) {
	why := errors.New("shutdown")
	for name, c := range map[string]struct {
		end   func(wd *watchdog.Watchdog, endParent context.CancelCauseFunc) error
		cause error
	}{
		"its parent ends": {func(_ *watchdog.Watchdog, end context.CancelCauseFunc) error { end(why); return nil }, why},
		"Interrupt":       {func(wd *watchdog.Watchdog, _ context.CancelCauseFunc) error { return wd.Interrupt("SIGINT") }, nil},
		"Complete": {
			func(wd *watchdog.Watchdog, _ context.CancelCauseFunc) error {
				return errors.Join(wd.Complete(), wd.Complete())
			},
			watchdog.ErrComplete,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := switchedOff(t)
			parent, endParent := context.WithCancelCause(t.Context())
			defer endParent(nil)
			wd := b.under(parent)
			layer := openLayer(t, wd, "build", watchdog.Budget{})
			require.NoError(t, c.end(wd, endParent))
			<-layer.Context().Done()
			for _, ended := range []*watchdog.Watchdog{wd, layer} {
				if cause := context.Cause(ended.Context()); c.cause != nil {
					require.ErrorIs(t, cause, c.cause)
				} else {
					require.ErrorAs(t, cause, new(*watchdog.Interruption))
				}
				require.False(t, hasFired(ended))
			}
			require.ErrorIs(t, wd.Interrupt("SIGINT"), watchdog.ErrEnded)
			require.NoError(t, layer.Close())
			require.NoError(t, wd.Close())
		})
	}
	t.Run("Cancel, with a stop, which a subscriber gets", func(t *testing.T) {
		wd := switchedOff(t).attach()
		stop := cancelRun(t, wd, watchdog.Cancellation{Reason: "iteration_timeout", ObserveOnly: true})
		require.Nil(t, stop, "what is only observed leaves the run as it is")
		got := make(chan watchdog.Directive, 1)
		wd.Subscribe(func(d watchdog.Directive) { got <- d })
		stop = cancelRun(t, wd, watchdog.Cancellation{Reason: "iteration_timeout"})
		require.Equal(t, watchdog.DirectiveCancel, (<-got).Kind)
		require.Same(t, stop, requireStop(t, wd, watchdog.StopReason("iteration_timeout")))
		require.NoError(t, wd.Close())
	})
}

// TestDisabledMethods calls every method of a run that nothing guards, of a layer of it, and of both after their end.
func TestDisabledMethods(t *testing.T) {
	methods := reflect.TypeFor[*watchdog.Watchdog]()
	for i := range methods.NumMethod() {
		name := methods.Method(i).Name
		t.Run(name, func(t *testing.T) {
			b := switchedOff(t)
			wd := b.attach()
			layer := openLayer(t, wd, "build", watchdog.Budget{WallClock: time.Minute, Idle: time.Second})
			b.clock.Add(5 * time.Hour)
			for _, each := range []*watchdog.Watchdog{layer, wd} {
				method := reflect.ValueOf(each).MethodByName(name)
				for _, result := range method.Call(likely(method.Type())) {
					if result.Type() == reflect.TypeFor[error]() && !result.IsNil() {
						t.Errorf("%s of %s: %v", name, each.ID(), result)
					}
				}
			}
			for _, each := range []*watchdog.Watchdog{layer, wd} {
				require.NoError(t, each.Close())
				method := reflect.ValueOf(each).MethodByName(name)
				method.Call(likely(method.Type()))
			}
		})
	}
}

// TestDisabledHold expects that the cap of a hold never trips, nor silence after it, and that Extend gives more time to
// who has enough.
func TestDisabledHold(t *testing.T) {
	b := switchedOff(t)
	wd := b.attach()
	layer := openLayer(t, wd, "build", watchdog.Budget{})
	for _, of := range []*watchdog.Watchdog{wd, layer} {
		h := openHold(t, of, "approval", watchdog.HoldLimit{Cap: time.Second, Idle: time.Second})
		_, err := of.Hold(t.Context(), "approval", watchdog.HoldLimit{Cap: time.Second})
		require.ErrorIs(t, err, watchdog.ErrHeld)
		b.goesOn(of)
		require.True(t, h.Close())
		require.False(t, h.Close())
		b.goesOn(of)
		require.Zero(t, of.SinceActivity())
	}
	require.NoError(t, wd.Extend(time.Hour))
	require.ErrorIs(t, wd.Extend(0), watchdog.ErrInvalid)
	b.goesOn(wd)
}

func TestNoRun(t *testing.T) {
	none := watchdog.FromContext(context.Background())
	require.Nil(t, none)
	t.Run("every method can be called", func(t *testing.T) {
		methods := reflect.ValueOf(none)
		for i := range methods.NumMethod() {
			name := methods.Type().Method(i).Name
			require.NotPanics(t, func() { methods.Method(i).Call(likely(methods.Method(i).Type())) }, name)
		}
	})
	t.Run("it goes on without a limit", func(t *testing.T) {
		require.False(t, hasFired(none))
		require.Nil(t, none.Stop())
		require.Equal(t, time.Duration(watchdog.NoLimit), none.Remaining())
		require.NoError(t, none.Context().Err())
		stop := synced(t, none)
		require.Nil(t, stop)
		require.NoError(t, none.Close())
	})
	t.Run("what cannot be done without a run is an error that says so", func(t *testing.T) {
		_, cancel := none.Cancel(watchdog.Cancellation{Reason: "iteration_timeout"})
		_, layer := none.Layer("build", watchdog.Budget{})
		for name, err := range map[string]error{
			"Cancel": cancel, "Layer": layer, "Extend": none.Extend(time.Hour), "Interrupt": none.Interrupt("SIGINT"),
		} {
			require.ErrorIs(t, err, watchdog.ErrEnded, name)
			require.ErrorContains(t, err, "there is no run", name)
		}
	})
	t.Run("work under a hold is done", func(t *testing.T) {
		work := func(context.Context) error { return errDiskFull }
		require.Equal(t, errDiskFull, none.During(context.Background(), "tool", watchdog.HoldLimit{}, work))
	})
	t.Run("a subscription can be ended", func(*testing.T) { none.Subscribe(func(watchdog.Directive) {})() })
}

// likely are arguments for a method as a host passes them, and functions that do nothing.
func likely(function reflect.Type) (args []reflect.Value) {
	for i := range function.NumIn() {
		in := function.In(i)
		if function.IsVariadic() && i == function.NumIn()-1 {
			in = in.Elem() // one of them
		}
		arg := reflect.Zero(in)
		switch {
		case in == reflect.TypeFor[context.Context]():
			arg = reflect.ValueOf(context.Background())
		case in == reflect.TypeFor[time.Duration]():
			arg = reflect.ValueOf(time.Minute)
		case in == reflect.TypeFor[watchdog.Cancellation]():
			arg = reflect.ValueOf(watchdog.Cancellation{Reason: "iteration_timeout"})
		case in.Kind() == reflect.String:
			arg = reflect.ValueOf("tool").Convert(in)
		case in.Kind() == reflect.Func:
			arg = reflect.MakeFunc(in, func([]reflect.Value) (results []reflect.Value) {
				for j := range in.NumOut() {
					results = append(results, reflect.Zero(in.Out(j)))
				}
				return results
			})
		}
		args = append(args, arg)
	}
	return args
}
