package adapter_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/internal/adapter"
)

func used(wd *watchdog.Watchdog) (used, admitted int64) {
	u := wd.Usage()[0]
	return u.Used, u.Admitted
}

func TestModelSpend(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name     string
		answered bool
		usage    adapter.Usage
		used     int64
		errors   int64
	}{
		{name: "what the answer says", usage: adapter.Usage{Input: 100, Output: 20}, used: 120},
		{name: "an answer that says nothing counts as admitted", usage: adapter.Usage{}, used: 1024 + 3*16 + 50 + 400},
		{name: "a failure before an answer is free", usage: adapter.Usage{Err: boom}, errors: 1},
		{
			name: "a failure within an answer counts as admitted", answered: true,
			usage: adapter.Usage{Err: boom}, used: 1024 + 3*16 + 50 + 400, errors: 1,
		},
		{
			name: "or as it says", answered: true, usage: adapter.Usage{Input: 7, Output: 1, Err: boom}, used: 8, errors: 1,
		},
		{name: "what goes away by itself is no error", usage: adapter.Usage{Err: boom, Retry: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 10_000, Errors: 5}})
			call, _, err := adapter.New(adapter.Config{}).Model(wd.Context(),
				adapter.ModelRequest{Bytes: 50, Parts: 3, MaxOutput: 400})
			require.NoError(t, err)
			_, admitted := used(wd)
			require.EqualValues(t, 1024+3*16+50+400, admitted)
			if c.answered {
				call.Alive()
			}
			call.End(c.usage)
			call.End(adapter.Usage{Input: 1 << 40}) // only the first counts
			now, admitted := used(wd)
			require.Equal(t, c.used, now)
			require.Zero(t, admitted)
			require.Equal(t, c.errors, wd.Usage()[1].Used)
		})
	}
}

// TestModelNotSettled has the log told of what could not be charged as it was used.
func TestModelNotSettled(t *testing.T) {
	var log bytes.Buffer
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Cost: watchdog.Money{Micros: 1000, Currency: "EUR"}}})
	price := watchdog.Money{Micros: 10, Currency: "EUR"}
	g := adapter.New(adapter.Config{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Cost:   func(string, watchdog.Amount) watchdog.Money { return price },
	})
	call, _, err := g.Model(wd.Context(), adapter.ModelRequest{})
	require.NoError(t, err)
	price.Currency = "USD"
	call.End(adapter.Usage{Input: 1, Output: 1})
	require.Contains(t, log.String(), "is not charged as it was used")
	require.Contains(t, log.String(), "USD")
	require.Equal(t, int64(10), wd.Usage()[0].Admitted, "it stays charged with its admission")
}

func TestModelRefused(t *testing.T) {
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{OutputTokens: 1000}})
	g := adapter.New(adapter.Config{MaxOutput: 600})
	_, _, err := g.Model(wd.Context(), adapter.ModelRequest{})
	require.NoError(t, err)
	_, _, err = g.Model(wd.Context(), adapter.ModelRequest{})
	var refused *watchdog.Refused
	require.ErrorAs(t, err, &refused, "the most that a call may answer is admitted before it is made")
}

// TestModelReserve checks that a call that does not fit is made out of the reserve, and says so to the model, once.
func TestModelReserve(t *testing.T) {
	wd := newRun(t, watchdog.Budget{
		Spend: watchdog.Spend{OutputTokens: 1300, Reserve: watchdog.Totals{OutputTokens: 600}},
	})
	g := adapter.New(adapter.Config{MaxOutput: 600})
	call, messages, err := g.Model(wd.Context(), adapter.ModelRequest{})
	require.NoError(t, err)
	require.Empty(t, messages)
	call.End(adapter.Usage{Input: 1, Output: 600})
	call, messages, err = g.Model(wd.Context(), adapter.ModelRequest{})
	require.NoError(t, err)
	require.Len(t, messages, 1)
	require.Contains(t, messages[0], "Call no more tools")
	call.End(adapter.Usage{Input: 1, Output: 600})
	_, messages, err = g.Model(wd.Context(), adapter.ModelRequest{})
	var refused *watchdog.Refused
	require.ErrorAs(t, err, &refused)
	require.Empty(t, messages)
	<-wd.Context().Done()
}

// TestModelAgain checks that a call that a directive ended says so when it is made again: once, and each of several.
func TestModelAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{
			Idle: time.Minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry}},
		})
		g := adapter.New(adapter.Config{})
		err := wd.Try(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		var asked *watchdog.Directive
		require.ErrorAs(t, err, &asked)
		for range 2 {
			_, messages, err := g.Model(wd.Context(), adapter.ModelRequest{Again: asked})
			require.NoError(t, err)
			require.Equal(t, []string{adapter.Text(*asked)}, messages)
		}
		_, messages, err := g.Model(wd.Context(), adapter.ModelRequest{})
		require.NoError(t, err)
		require.Empty(t, messages)
	})
}

// TestModelRefusedAgain checks that a refusal that asks for something else than to wrap up is none of two.
func TestModelRefusedAgain(t *testing.T) {
	wd := newRun(t, watchdog.Budget{
		Spend:   watchdog.Spend{Requests: 1},
		Ladders: watchdog.Ladders{Requests: []watchdog.DirectiveKind{watchdog.DirectiveUnstuck}},
	})
	g := adapter.New(adapter.Config{})
	_, _, err := g.Model(wd.Context(), adapter.ModelRequest{})
	require.NoError(t, err)
	_, messages, err := g.Model(wd.Context(), adapter.ModelRequest{})
	var refused *watchdog.Refused
	require.ErrorAs(t, err, &refused)
	require.Len(t, messages, 1)
	require.NoError(t, wd.Context().Err(), "the ladder has one more rung")
}

func TestModelCost(t *testing.T) {
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Cost: watchdog.Money{Micros: 1_000_000, Currency: "EUR"}}})
	g := adapter.New(adapter.Config{Cost: func(model string, a watchdog.Amount) watchdog.Money {
		require.Equal(t, "m-1", model)
		return watchdog.Money{Micros: a.InputTokens + 10*a.OutputTokens, Currency: "EUR"}
	}})
	call, _, err := g.Model(wd.Context(), adapter.ModelRequest{Model: "m-1", MaxOutput: 100})
	require.NoError(t, err)
	_, admitted := used(wd)
	require.EqualValues(t, 1024+1000, admitted)
	call.End(adapter.Usage{Input: 10, Output: 5})
	now, _ := used(wd)
	require.EqualValues(t, 60, now)
}

// TestModelAlive checks that each piece of an answer is a sign of life, and nothing else keeps a call alive.
func TestModelAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Idle: time.Minute})
		call, _, err := adapter.New(adapter.Config{}).Model(wd.Context(), adapter.ModelRequest{})
		require.NoError(t, err)
		for range 10 {
			time.Sleep(time.Minute)
			require.Nil(t, wd.Stop())
			call.Alive()
		}
		time.Sleep(time.Minute + 1)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(wd.Context()), watchdog.IdleExceeded)
		_, _, err = adapter.New(adapter.Config{}).Model(wd.Context(), adapter.ModelRequest{})
		require.ErrorIs(t, err, watchdog.IdleExceeded)
	})
}

// TestEndedBefore checks that no call is made in a run that has ended, also in a context that was cut off from it.
func TestEndedBefore(t *testing.T) {
	for name, end := range map[string]func(*watchdog.Watchdog){
		"closed":   func(wd *watchdog.Watchdog) { _ = wd.Close() },
		"complete": func(wd *watchdog.Watchdog) { _ = wd.Complete() },
		"stopped":  func(wd *watchdog.Watchdog) { _, _ = wd.Cancel(watchdog.Cancellation{Reason: "operator_stop"}) },
	} {
		t.Run(name, func(t *testing.T) {
			wd, g := newRun(t, watchdog.Budget{Idle: time.Minute}), adapter.New(adapter.Config{})
			end(wd)
			for _, ctx := range []context.Context{wd.Context(), context.WithoutCancel(wd.Context())} {
				_, _, err := g.Model(ctx, adapter.ModelRequest{})
				require.Error(t, err)
				_, ended, err := use(ctx, g, func(context.Context) (string, error) { panic("the call was made") })
				require.Error(t, err)
				require.Nil(t, ended)
			}
		})
	}
}

func TestModelWithoutRun(t *testing.T) {
	call, messages, err := adapter.New(adapter.Config{}).Model(t.Context(), adapter.ModelRequest{})
	require.NoError(t, err)
	require.Empty(t, messages)
	call.Alive()
	call.End(adapter.Usage{})
}

// TestMessages checks what directives say, and that each is said once.
func TestMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{
			WallClock: time.Hour, Reserve: 10 * time.Minute, Idle: time.Minute,
			Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{
				watchdog.DirectiveWait, watchdog.DirectiveRetry, watchdog.DirectiveUnstuck, watchdog.DirectiveWait,
			}},
		})
		g := adapter.New(adapter.Config{})
		time.Sleep(51 * time.Minute)
		synctest.Wait()
		call, messages, err := g.Model(wd.Context(), adapter.ModelRequest{})
		require.NoError(t, err)
		require.Len(t, messages, 3)
		require.Contains(t, messages[0], "Do it again")
		require.Contains(t, messages[1], "try another way")
		require.Contains(t, messages[2], "Call no more tools")
		for _, m := range messages {
			require.Contains(t, m, "watchdog_", "each names its limit")
		}
		call.End(adapter.Usage{})
		_, messages, err = g.Model(wd.Context(), adapter.ModelRequest{})
		require.NoError(t, err)
		require.Empty(t, messages)
	})
}

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
