package watchdog_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func TestNoRun(t *testing.T) {
	none := watchdog.FromContext(context.Background())
	require.Nil(t, none)
	t.Run("every method can be called", func(t *testing.T) {
		methods := reflect.ValueOf(none)
		for i := range methods.NumMethod() {
			name := methods.Type().Method(i).Name
			require.NotPanics(t, func() { methods.Method(i).Call(zeros(methods.Method(i).Type())) }, name)
		}
	})
	t.Run("it goes on without a limit", func(t *testing.T) {
		_, fired := none.Fired()
		require.False(t, fired)
		require.Nil(t, none.Stop())
		require.Equal(t, time.Duration(watchdog.NoLimit), none.Remaining())
		require.NoError(t, none.Context().Err())
		stop, err := none.Sync(context.Background())
		require.NoError(t, err)
		require.Nil(t, stop)
		require.NoError(t, none.Close())
	})
	t.Run("what cannot be done without a run is an error that says so", func(t *testing.T) {
		_, cancel := none.Cancel(watchdog.Cancellation{Reason: watchdog.IterationTimeout})
		_, layer := none.Layer("build", watchdog.Budget{})
		for name, err := range map[string]error{
			"Cancel": cancel, "Layer": layer, "Extend": none.Extend(time.Hour), "Interrupt": none.Interrupt("SIGINT"),
		} {
			require.ErrorIs(t, err, watchdog.ErrEnded, name)
			require.ErrorContains(t, err, "there is no run", name)
		}
	})
	t.Run("work under a hold is done", func(t *testing.T) {
		done := false
		require.NoError(t, none.During(context.Background(), "tool", watchdog.HoldLimit{}, func(context.Context) error {
			done = true
			return nil
		}))
		require.True(t, done)
	})
	t.Run("a subscription can be ended", func(*testing.T) { none.Subscribe(func(watchdog.Directive) {})() })
}

// zeros are arguments for a function: a context, functions that do nothing, and zero values.
func zeros(function reflect.Type) (args []reflect.Value) {
	for i := range function.NumIn() {
		in := function.In(i)
		if function.IsVariadic() && i == function.NumIn()-1 {
			in = in.Elem() // one of them
		}
		switch {
		case in == reflect.TypeFor[context.Context]():
			args = append(args, reflect.ValueOf(context.Background()))
		case in.Kind() == reflect.Func:
			args = append(args, reflect.MakeFunc(in, func([]reflect.Value) (results []reflect.Value) {
				for j := range in.NumOut() {
					results = append(results, reflect.Zero(in.Out(j)))
				}
				return results
			}))
		default:
			args = append(args, reflect.Zero(in))
		}
	}
	return args
}
