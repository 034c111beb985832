package watchdogadk_test

import (
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/adk/v2/tool/geminitool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

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
		_, err := s.ask(newRun(t, watchdog.Budget{}).Context(), "go")
		require.NoError(t, err)
		within(t, time.Minute, time.Since(began))
		assert.Contains(t, unescaped(m.asked(1)), `The call of the tool "hang" was ended`)
		assert.Contains(t, m.asked(1), "the set's words")
		assert.Same(t, sets[0], g.Toolset(sets[0]), "it is wrapped once")

		s = newStage(t, newAgent(t, llmagent.Config{Model: g.Model(m), Toolsets: g.Toolsets(brokenSet{})}))
		_, err = s.ask(newRun(t, watchdog.Budget{}).Context(), "go")
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
	_, err := s.ask(wd.Context(), "go")
	require.NoError(t, err)
	assert.Equal(t, 1, m.count())
	_, err = s.answer(wd.Context(), "ticket", map[string]any{"result": "finished"})
	require.NoError(t, err)
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
			last, err := s.ask(wd.Context(), "go")
			require.NoError(t, err)
			assert.Equal(t, "done", last)
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
	_, err = s.ask(wd.Context(), "go")
	require.NoError(t, err)
	assert.Equal(t, 1, m.count())
	assert.Zero(t, wd.Usage()[0].Used, "no error")
	_, err = s.answer(wd.Context(), "adk_request_confirmation", map[string]any{"confirmed": true})
	require.NoError(t, err)
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
		_, err := s.ask(wd.Context(), "go")
		require.NoError(t, err)
		assert.Equal(t, []string{"one", "two"}, pieces)
		assert.Equal(t, 2, sent, "the tool was told")
	})
}
