package watchdogadk_test

import (
	"context"
	"encoding/json"
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
	} {
		bubble(t, c.name, func(t *testing.T) {
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
	}
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

// TestSecrets checks that no event and no log holds a prompt, an input or output of a tool, or what a panic says.
func TestSecrets(t *testing.T) {
	const canary = "canary-7f3a"
	synctest.Test(t, func(t *testing.T) {
		log, store := quiet(t), &watchdog.Memory{}
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "job-1", StartedAt: time.Now()}, watchdog.Config{
			Store: store, Budget: watchdog.Budget{Idle: time.Minute, Spend: watchdog.Spend{ToolCalls: 7}},
		})
		require.NoError(t, err)
		m := scripted(asks("work", "how", "answer"), asks("work", "how", "fail"), asks("work", "how", "panic"),
			asks("work", "how", "hang"), asks("work", "how", "late"), stalls(0, partial(canary)))
		s := newGuarded(t, watchdogadk.New(limits), m,
			toolOf("work", func(ctx agent.Context, args map[string]any) (map[string]any, error) {
				args["canary"] = canary
				switch args["how"] {
				case "fail":
					return nil, errors.New(canary)
				case "panic":
					panic(canary)
				case "hang":
					return until(ctx, nil)
				case "late":
					time.Sleep(time.Hour)
					panic(canary)
				}
				return map[string]any{"result": canary}, nil
			}))
		_, err = s.ask(wd.Context(), canary)
		require.ErrorIs(t, err, watchdog.IdleExceeded)
		require.NotContains(t, err.Error(), canary)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.NoError(t, wd.Close())
		var all []byte
		for _, id := range []string{"job-1", "job-1/work-1", "job-1/work-2", "job-1/work-3", "job-1/work-4", "job-1/work-5"} {
			events, err := store.Read(t.Context(), watchdog.AggregateType, id)
			require.NoError(t, err)
			text, err := json.Marshal(events)
			require.NoError(t, err)
			all = append(all, text...)
		}
		assert.Contains(t, string(all), "idle_exceeded")
		assert.NotContains(t, string(all), canary)
		assert.Contains(t, log.String(), "tool panicked")
		assert.NotContains(t, log.String(), canary)
		assert.NotContains(t, m.asked(3), "panicked: "+canary)
	})
}
