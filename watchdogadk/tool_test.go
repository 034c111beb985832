package watchdogadk_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/adk/v2/tool/geminitool"
	"google.golang.org/genai"

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
			assert.Equal(t, "done", s.run(wd.Context()), "the agent goes on")
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
	assert.Equal(t, "done", s.run(wd.Context()))
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
		s.run(wd.Context())
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

// A set of tools.
type set []tool.Tool

func (set) Name() string                                       { return "set" }
func (s set) Tools(agent.ReadonlyContext) ([]tool.Tool, error) { return s, nil }

// A tellingSet adds words to the requests of the model.
type tellingSet struct{ set }

func (tellingSet) ProcessRequest(_ agent.Context, req *model.LLMRequest) error {
	req.Contents = append(req.Contents, genai.NewContentFromText("the set's words", genai.RoleUser))
	return nil
}

// A brokenSet cannot list its tools.
type brokenSet struct{ set }

func (brokenSet) Tools(agent.ReadonlyContext) ([]tool.Tool, error) { return nil, assert.AnError }

// TestToolset checks that the tools of a set are guarded, that a set adds its words, and that its error is one.
func TestToolset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		g, m := watchdogadk.New(limits), scripted(calls("hang"))
		sets := g.Toolsets(set{toolOf("hang", until)}, tellingSet{set{toolOf("look", ok)}})
		s := newStage(t, newAgent(t, llmagent.Config{Model: g.Model(m), Toolsets: sets}))
		began := time.Now()
		s.run(newRun(t, watchdog.Budget{}).Context())
		within(t, time.Minute, time.Since(began))
		assert.Contains(t, unescaped(m.asked(1)), `The call of the tool "hang" was ended`)
		assert.Contains(t, m.asked(1), "the set's words")
		assert.Same(t, sets[0], g.Toolset(sets[0]), "it is wrapped once")

		s = newStage(t, newAgent(t, llmagent.Config{Model: g.Model(m), Toolsets: g.Toolsets(brokenSet{})}))
		_, err := s.ask(newRun(t, watchdog.Budget{}).Context(), "go")
		require.ErrorIs(t, err, assert.AnError)
	})
}

// A lazyTool leaves its answer to somebody else.
type lazyTool struct{ bareTool }

func (*lazyTool) DefersResponse() bool { return true }

// TestToolKinds checks that a tool which does not run here is left alone, and that the others are wrapped once and tell
// what they are.
func TestToolKinds(t *testing.T) {
	g := watchdogadk.New(limits)
	assert.Equal(t, geminitool.GoogleSearch{}, g.Tool(geminitool.GoogleSearch{}))
	type deferrer interface{ DefersResponse() bool }
	for _, bare := range []tool.Tool{
		toolOf("a", ok), &bareTool{name: "b", run: ok, long: true}, &lazyTool{bareTool{name: "c", run: ok}},
		streamOf("d", nil),
	} {
		guarded := g.Tool(bare)
		assert.NotSame(t, bare, guarded)
		assert.Same(t, guarded, g.Tool(guarded))
		assert.Equal(t, bare.Name(), guarded.Name())
		assert.Equal(t, bare.IsLongRunning(), guarded.IsLongRunning())
		_, defers := bare.(deferrer)
		assert.Equal(t, defers, guarded.(deferrer).DefersResponse())
	}
}

// TestToolLong checks that a tool which is finished later is answered later.
func TestToolLong(t *testing.T) {
	m := scripted(calls("ticket"))
	s := newGuarded(t, watchdogadk.New(limits), m, &bareTool{name: "ticket", long: true,
		run: func(agent.Context, map[string]any) (map[string]any, error) { return nil, nil }})
	wd := newRun(t, watchdog.Budget{})
	s.run(wd.Context())
	assert.Equal(t, 1, m.count())
	s.answer(wd.Context(), "ticket", map[string]any{"result": "finished"})
	assert.Contains(t, m.asked(1), "finished")
}

// each yields pieces with a pause before each.
func each(pause time.Duration, yield func(string, error) bool, pieces ...string) bool {
	for _, piece := range pieces {
		if time.Sleep(pause); !yield(piece, nil) {
			return false
		}
	}
	return true
}

// TestStreamTool checks what the model is told of a tool that streams.
func TestStreamTool(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(ctx agent.Context, args map[string]any, yield func(string, error) bool)
		took time.Duration
		told string
	}{
		{
			name: "its pieces, each a sign of life", took: 3 * time.Minute, told: `{"result":"onetwothree"}`,
			run: func(_ agent.Context, _ map[string]any, yield func(string, error) bool) {
				each(time.Minute, yield, "one", "two", "three")
			},
		},
		{
			name: "an error", took: time.Second, told: `{"error":"broken"}`,
			run: func(_ agent.Context, _ map[string]any, yield func(string, error) bool) {
				if each(time.Second, yield, "one") {
					yield("", errors.New("broken"))
				}
			},
		},
		{
			name: "a hang after a piece", took: time.Minute + time.Second,
			told: `{"result":"one\nThe call of the tool "tail" was ended: it gave no sign of life for its limit of 1m0s. Parts`,
			run: func(ctx agent.Context, _ map[string]any, yield func(string, error) bool) {
				if each(time.Second, yield, "one") {
					<-ctx.Done()
					yield("late", nil)
				}
			},
		},
		{
			name: "a hang that ignores its context", took: time.Minute + 5*time.Second, told: `may still be running`,
			run: func(_ agent.Context, _ map[string]any, yield func(string, error) bool) {
				each(time.Hour, yield, "much too late", "even later")
			},
		},
		{
			name: "pieces for ever", took: 10*time.Minute + 3*time.Second, told: `did not finish within its limit of 10m0s`,
			run: func(_ agent.Context, _ map[string]any, yield func(string, error) bool) {
				for each(3*time.Second, yield, ".") {
				}
			},
		},
		{
			name: "a panic", told: `{"error":"the tool "tail" panicked`,
			run: func(agent.Context, map[string]any, func(string, error) bool) { panic("boom") },
		},
	} {
		bubble(t, c.name, func(t *testing.T) {
			quiet(t)
			wd, m := newRun(t, watchdog.Budget{Idle: time.Second}), scripted(calls("tail"))
			s := newGuarded(t, watchdogadk.New(limits), m, streamOf("tail", c.run))
			began := time.Now()
			assert.Equal(t, "done", s.run(wd.Context()))
			within(t, c.took, time.Since(began))
			assert.Contains(t, unescaped(m.asked(1)), c.told)
			time.Sleep(3 * time.Hour)
			assert.NotContains(t, s.history(), "late")
		})
	}
}

// TestStreamFunctionTool checks that the SDK's own streaming tools can be guarded, and ask for approval.
func TestStreamFunctionTool(t *testing.T) {
	tail, err := functiontool.NewStreaming(functiontool.Config{Name: "tail", RequireConfirmation: true},
		func(_ agent.Context, _ map[string]any) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) { each(0, yield, "one", "two") }
		})
	require.NoError(t, err)
	wd, m := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Errors: 1}}), scripted(calls("tail"))
	s := newGuarded(t, watchdogadk.New(limits), m, tail)
	s.run(wd.Context())
	assert.Equal(t, 1, m.count())
	assert.Zero(t, wd.Usage()[0].Used, "no error")
	s.answer(wd.Context(), "adk_request_confirmation", map[string]any{"confirmed": true})
	assert.Contains(t, m.asked(m.count()-1), "onetwo")
}

// TestStreamToolUnread checks that the reader of a stream may leave.
func TestStreamToolUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, sent := newRun(t, watchdog.Budget{}), 0
		tail := streamOf("tail", func(_ agent.Context, _ map[string]any, yield func(string, error) bool) {
			each(time.Second, func(piece string, err error) bool {
				sent++
				return yield(piece, err)
			}, "one", "two", "three")
		})
		g := watchdogadk.New(limits)
		var pieces []string
		m := scripted(calls("drive"))
		s := newGuarded(t, g, m, toolOf("drive", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
			stream := g.Tool(tail).(interface {
				RunStream(agent.Context, any) iter.Seq2[string, error]
			})
			for piece, err := range stream.RunStream(ctx, map[string]any{}) {
				if pieces = append(pieces, piece); len(pieces) == 2 {
					return map[string]any{}, err
				}
			}
			return nil, nil
		}))
		s.run(wd.Context())
		assert.Equal(t, []string{"one", "two"}, pieces)
		assert.Equal(t, 2, sent, "the tool was told")
	})
}
