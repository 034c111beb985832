package watchdogadk_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/tool/functiontool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

var limits = watchdogadk.Config{
	Tools: watchdogadk.Limits{Limit: 10 * time.Minute, Idle: time.Minute, Grace: 5 * time.Second},
}

// TestTool checks what the model is told of a call, and after how long.
func TestTool(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(agent.Context, map[string]any) (map[string]any, error)
		took time.Duration
		told string // in the next request
	}{
		{
			name: "an answer", told: `"response":{"n":1}`,
			run: func(agent.Context, map[string]any) (map[string]any, error) { return map[string]any{"n": 1}, nil },
		},
		{
			name: "an error", told: `"response":{"error":"no such file"}`,
			run: func(agent.Context, map[string]any) (map[string]any, error) { return nil, errors.New("no such file") },
		},
		{name: "a hang", took: time.Minute, told: `gave no sign of life for its limit of 1m0s. Parts of it may`, run: until},
		{
			name: "signs of life up to the limit", took: 10 * time.Minute, told: `did not finish within its limit of 10m0s`,
			run: func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
				for range 19 {
					time.Sleep(30 * time.Second)
					watchdog.FromContext(ctx).Activity()
				}
				return until(ctx, nil)
			},
		},
		{
			name: "a hang that ignores its context", took: time.Minute + 5*time.Second, told: `may still be running`,
			run: func(agent.Context, map[string]any) (map[string]any, error) {
				time.Sleep(time.Hour)
				return map[string]any{"result": "much too late"}, nil
			},
		},
		{
			name: "a panic", told: `{"error":"the tool "search" panicked; parts of it may have been done"}`,
			run: func(agent.Context, map[string]any) (map[string]any, error) { panic("boom") },
		},
		{
			name: "a panic after it was given up", took: time.Minute + 5*time.Second, told: `may still be running`,
			run: func(agent.Context, map[string]any) (map[string]any, error) {
				time.Sleep(time.Hour)
				panic("boom")
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				quiet(t)
				wd, m := newRun(t, watchdog.Budget{Idle: time.Second}), scripted(calls("search"))
				s := newGuarded(t, watchdogadk.New(limits), m, toolOf("search", c.run))
				began := time.Now()
				last, err := s.ask(wd.Context(), "go")
				require.NoError(t, err)
				assert.Equal(t, "done", last, "the agent goes on")
				within(t, c.took, time.Since(began))
				assert.Contains(t, unescaped(m.asked(1)), c.told)
				assert.Nil(t, wd.Stop())
				time.Sleep(time.Second + 1)
				assert.NotNil(t, wd.Stop(), "the hold is closed: the run's own idle counts again")
				time.Sleep(2 * time.Hour) // what was abandoned returns
				assert.NotContains(t, s.history(), "much too late")
			})
		})
	}
}

// TestToolLives checks that a tool which is silent for half an hour is not killed by an idle of a minute.
func TestToolLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, m := newRun(t, watchdog.Budget{Idle: time.Minute}), scripted(calls("build"))
		s := newGuarded(t, watchdogadk.New(watchdogadk.Config{}), m,
			toolOf("build", func(agent.Context, map[string]any) (map[string]any, error) {
				time.Sleep(30 * time.Minute)
				return map[string]any{"result": "built"}, nil
			}))
		_, err := s.ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Contains(t, m.asked(1), "built")
		assert.Nil(t, wd.Stop())
	})
}

// TestToolOnce checks that a tool without an answer is called once.
func TestToolOnce(t *testing.T) {
	called := 0
	wd, m := newRun(t, watchdog.Budget{}), scripted(calls("note"))
	s := newGuarded(t, watchdogadk.New(watchdogadk.Config{}), m,
		toolOf("note", func(agent.Context, map[string]any) (map[string]any, error) {
			called++
			return nil, nil
		}))
	last, err := s.ask(wd.Context(), "go")
	require.NoError(t, err)
	assert.Equal(t, "done", last)
	assert.Equal(t, 1, called)
}

// TestToolRefused checks that a call which does not fit in a limit is not made, and that the agent goes on.
func TestToolRefused(t *testing.T) {
	wd := newRun(t, watchdog.Budget{
		Spend:   watchdog.Spend{Tools: map[string]int64{"search": 1}},
		Ladders: watchdog.Ladders{ToolCalls: []watchdog.DirectiveKind{watchdog.DirectiveWait}},
	})
	called, m := 0, scripted(calls("search"), calls("search"))
	s := newGuarded(t, watchdogadk.New(watchdogadk.Config{}), m,
		toolOf("search", func(agent.Context, map[string]any) (map[string]any, error) {
			called++
			return map[string]any{"n": called}, nil
		}))
	last, err := s.ask(wd.Context(), "go")
	require.NoError(t, err)
	assert.Equal(t, "done", last)
	assert.Equal(t, 1, called)
	assert.Contains(t, unescaped(m.asked(2)), `The call of the tool "search" was not made`)
	assert.EqualValues(t, 1, wd.Usage()[0].Used)
}

// TestToolCancelled checks that a call ends with its caller, and is no answer for the model.
func TestToolCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, m, gone := newRun(t, watchdog.Budget{}), scripted(calls("search")), errors.New("the client has gone")
		s := newGuarded(t, watchdogadk.New(limits), m, toolOf("search", until))
		ctx, cancel := context.WithCancelCause(wd.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		began := time.Now()
		_, err := s.ask(ctx, "go")
		require.ErrorIs(t, err, gone)
		within(t, time.Second, time.Since(began))
		assert.Equal(t, 1, m.count())
		assert.Nil(t, wd.Stop())
	})
}

// TestToolRunEnds checks that a tool ends with its run, also if it ignores its context.
func TestToolRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, m := newRun(t, watchdog.Budget{WallClock: time.Minute}), scripted(calls("search"))
		s := newGuarded(t, watchdogadk.New(limits), m,
			toolOf("search", func(agent.Context, map[string]any) (map[string]any, error) {
				time.Sleep(time.Hour)
				return nil, nil
			}))
		began := time.Now()
		_, err := s.ask(wd.Context(), "go")
		require.ErrorIs(t, err, watchdog.WallClockExceeded)
		within(t, time.Minute+5*time.Second, time.Since(began))
		assert.Equal(t, 1, m.count())
		time.Sleep(time.Hour)
	})
}

// TestFunctionTool checks that the SDK's own function tools can be guarded, with their schemas.
func TestFunctionTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type args struct {
			Query string `json:"query,omitempty"`
		}
		search, err := functiontool.New(functiontool.Config{Name: "search", Description: "searches"},
			func(ctx agent.Context, a args) (map[string]any, error) {
				if a.Query == "" {
					panic("no query")
				}
				<-ctx.Done()
				return nil, context.Cause(ctx)
			})
		require.NoError(t, err)
		wd, m := newRun(t, watchdog.Budget{Idle: time.Second}), scripted(calls("search"), asks("search", "query", "x"))
		s := newGuarded(t, watchdogadk.New(limits), m, search)
		_, err = s.ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Contains(t, m.asked(1), `panic in tool`, "in the SDK's own words")
		assert.Contains(t, m.asked(2), `gave no sign of life`)
		declared := m.requests[0].Config.Tools[0].FunctionDeclarations
		require.Len(t, declared, 1)
		assert.Equal(t, "searches", declared[0].Description)
		assert.NotNil(t, declared[0].ParametersJsonSchema)
	})
}

// TestToolWithoutRun checks that a call in no run is bounded all the same.
func TestToolWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := scripted(calls("search"))
		s := newGuarded(t, watchdogadk.New(limits), m, toolOf("search", until))
		_, err := s.ask(t.Context(), "go")
		require.NoError(t, err)
		assert.Contains(t, m.asked(1), "limit of 10m0s")
	})
}
