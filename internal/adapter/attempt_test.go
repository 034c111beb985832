package adapter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/internal/adapter"
)

func TestAttempt(t *testing.T) {
	boom, gone := errors.New("boom"), errors.New("the client has gone")
	idle := watchdog.Budget{Idle: time.Minute}
	ladder := idle
	ladder.Ladders.Idle = []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveCancel}
	var directive *watchdog.Directive
	for _, c := range []struct {
		name   string
		budget watchdog.Budget
		leaves time.Duration // when the caller goes
		work   func(context.Context) (string, error)
		took   time.Duration
		result string
		err    error
		again  bool
	}{
		{name: "an answer", work: func(context.Context) (string, error) { return "ok", nil }, result: "ok"},
		{name: "an error", work: func(context.Context) (string, error) { return "half", boom }, result: "half", err: boom},
		{name: "silence", budget: idle, work: until, took: time.Minute, result: "too late", err: watchdog.IdleExceeded},
		{name: "silence that is asked to be done again", budget: ladder, work: until, took: time.Minute, result: "too late", again: true},
		{name: "a caller that goes", leaves: time.Second, work: until, took: time.Second, result: "too late", err: gone},
		{
			name: "a context that is ignored", budget: idle, took: time.Minute + 5*time.Second, err: watchdog.IdleExceeded,
			work: func(context.Context) (string, error) {
				time.Sleep(time.Hour)
				panic("much too late")
			},
		},
	} {
		bubble(t, c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(newRun(t, c.budget).Context())
			defer cancel(nil)
			if c.leaves > 0 {
				time.AfterFunc(c.leaves, func() { cancel(gone) })
			}
			began := time.Now()
			result, err := adapter.Attempt(ctx, adapter.New(limits), c.work)
			within(t, c.took, time.Since(began))
			assert.Equal(t, c.result, result)
			assert.Equal(t, c.again, errors.As(err, &directive))
			if !c.again {
				require.ErrorIs(t, err, c.err)
			}
			time.Sleep(time.Hour) // what was abandoned returns
		})
	}
}

func TestAttemptPanics(t *testing.T) {
	defer func() {
		panicked, _ := recover().(*bound.CallPanic)
		require.NotNil(t, panicked)
		assert.Equal(t, "boom", panicked.Value)
		assert.Contains(t, string(panicked.Stack), "TestAttemptPanics")
	}()
	_, _ = adapter.Attempt(t.Context(), adapter.New(limits), func(context.Context) (string, error) { panic("boom") })
}

// TestModelReserveInside checks that the models of a run and of a layer, such as that of an agent which is a tool, are
// both told to wrap up, and that neither waits for the other.
func TestModelReserveInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{OutputTokens: 1900, Reserve: watchdog.Totals{OutputTokens: 1200}}})
		g := adapter.New(adapter.Config{MaxOutput: 600})
		layer, err := wd.Layer("helper", watchdog.Budget{})
		require.NoError(t, err)
		defer layer.Close()
		began := time.Now()
		for _, c := range []struct {
			of   *watchdog.Watchdog
			told int
		}{{layer, 0}, {layer, 1}, {wd, 1}} {
			call, messages, err := g.Model(c.of.Context(), adapter.ModelRequest{})
			require.NoError(t, err)
			require.Len(t, messages, c.told)
			for _, m := range messages {
				assert.Contains(t, m, "Call no more tools")
			}
			call.End(adapter.Usage{Output: 600})
			synctest.Wait()
		}
		_, _, err = g.Model(layer.Context(), adapter.ModelRequest{})
		require.Error(t, err)
		assert.Zero(t, time.Since(began))
		synctest.Wait()
		assert.ErrorIs(t, context.Cause(wd.Context()), watchdog.TokensExceeded)
	})
}

// TestToolPaused checks that a call that waits for somebody is no call yet.
func TestToolPaused(t *testing.T) {
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{ToolCalls: 1, Errors: 1}})
	g, waits := adapter.New(limits), errors.New("may I?")
	call := search(`{}`)
	call.Paused = func(err error) bool { return errors.Is(err, waits) }
	for range 3 {
		_, ended, err := adapter.Do(wd.Context(), g, call, func(context.Context) (string, error) { return "", waits }, nil)
		assert.Equal(t, waits, err)
		assert.Nil(t, ended)
	}
	for _, u := range wd.Usage() {
		assert.Zero(t, u.Used, u.Limit)
	}
	_, ended, err := adapter.Do(wd.Context(), g, call, func(context.Context) (string, error) { return "ok", nil }, nil)
	require.NoError(t, err)
	assert.Nil(t, ended)
}
