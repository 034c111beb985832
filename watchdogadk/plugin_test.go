package watchdogadk_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/parallelagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/genai"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

// TestModelStalls checks that a stream that stalls is ended by the run's idle, with why.
func TestModelStalls(t *testing.T) {
	for _, c := range []struct {
		name string
		turn turn
		took time.Duration
	}{
		{name: "before the first piece", turn: stalls(0), took: time.Minute},
		{name: "after a piece", turn: stalls(0, partial("well")), took: time.Minute},
		{name: "and ignores its context", turn: stalls(time.Hour, partial("well")), took: time.Minute + 5*time.Second},
		{
			name: "after pieces, each a sign of life", took: 4 * time.Minute,
			turn: after(answers(time.Minute, partial("a"), partial("b"), partial("c")), stalls(0)),
		},
	} {
		bubble(t, c.name, func(t *testing.T) {
			quiet(t)
			wd, m := newRun(t, watchdog.Budget{Idle: time.Minute}), scripted(c.turn)
			s := newGuarded(t, watchdogadk.New(limits), m)
			began := time.Now()
			_, err := s.ask(wd.Context(), "go")
			require.ErrorIs(t, err, watchdog.IdleExceeded)
			within(t, c.took, time.Since(began))
			assert.Equal(t, 1, m.count())
			time.Sleep(2 * time.Hour)
			assert.NotContains(t, s.history(), "too late")
		})
	}
}

// after answers with one turn and then another.
func after(turns ...turn) turn {
	return func(ctx context.Context, req *model.LLMRequest) iter.Seq2[*model.LLMResponse, error] {
		return func(yield func(*model.LLMResponse, error) bool) {
			for _, one := range turns {
				for r, err := range one(ctx, req) {
					if !yield(r, err) {
						return
					}
				}
			}
		}
	}
}

// TestModelAgain checks that a stream that stalls is asked for again where the run's ladder says so, with its words,
// and that the session has the second answer alone.
func TestModelAgain(t *testing.T) {
	for _, c := range []struct {
		kind watchdog.DirectiveKind
		says string
	}{
		{watchdog.DirectiveRetry, "Do it again, in smaller parts"},
		{watchdog.DirectiveUnstuck, "Leave that and try another way"},
	} {
		bubble(t, string(c.kind), func(t *testing.T) {
			wd := newRun(t, watchdog.Budget{
				Idle: time.Minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{c.kind}},
			})
			m := scripted(stalls(0, partial("half")), answers(0, partial("wh"), whole(genai.NewPartFromText("whole"))))
			s := newGuarded(t, watchdogadk.New(limits), m)
			began := time.Now()
			assert.Equal(t, "whole", s.run(wd.Context()))
			within(t, time.Minute, time.Since(began))
			assert.Equal(t, 2, m.count())
			assert.NotContains(t, m.asked(0), c.says)
			assert.Contains(t, m.asked(1), c.says)
			assert.NotContains(t, s.history(), "half")
			assert.NotContains(t, s.history(), c.says, "the words are not part of the session")
			assert.Nil(t, wd.Stop())
		})
	}
}

// TestModelKept checks that an answer of which the session has a part is not asked for again.
func TestModelKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{
			Idle: time.Minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry}},
		})
		m := scripted(stalls(0, whole(genai.NewPartFromText("all of it"))))
		s := newGuarded(t, watchdogadk.New(limits), m)
		assert.Equal(t, "all of it", s.run(wd.Context()))
		assert.Equal(t, 1, m.count())
		assert.Nil(t, wd.Stop())
	})
}

// TestModelSilentEnd checks that a model which ends without a word when its context does has not answered, however the
// two are seen.
func TestModelSilentEnd(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			quiet(t)
			g, wd := watchdogadk.New(limits), newRun(t, watchdog.Budget{Idle: time.Minute})
			m := g.Model(scripted(func(ctx context.Context, _ *model.LLMRequest) iter.Seq2[*model.LLMResponse, error] {
				return func(func(*model.LLMResponse, error) bool) { <-ctx.Done() }
			}))
			yielded := 0
			for _, err := range m.GenerateContent(wd.Context(), &model.LLMRequest{}, true) {
				require.ErrorIs(t, err, watchdog.IdleExceeded)
				yielded++
			}
			assert.Equal(t, 1, yielded)
		})
	}
}

// TestModelPanics checks that a panic of the model is one where the SDK handles it, which makes an error of it.
func TestModelPanics(t *testing.T) {
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000, Errors: 5}})
	m := scripted(func(context.Context, *model.LLMRequest) iter.Seq2[*model.LLMResponse, error] { panic("boom") })
	_, err := newGuarded(t, watchdogadk.New(limits), m).ask(wd.Context(), "go")
	require.ErrorContains(t, err, "panicked")
	assert.EqualValues(t, 1, usage(wd, watchdog.ErrorsExceeded).Used)
	assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
}

// TestModelCancelled checks that a call ends with its caller, though the model ignores that.
func TestModelCancelled(t *testing.T) {
	for _, ignore := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			wd, gone := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}}), errors.New("the client has gone")
			ctx, cancel := context.WithCancelCause(wd.Context())
			time.AfterFunc(time.Second, func() { cancel(gone) })
			began := time.Now()
			m := scripted(stalls(ignore, partial("well")))
			_, err := newGuarded(t, watchdogadk.New(limits), m).ask(ctx, "go")
			require.ErrorIs(t, err, gone)
			assert.LessOrEqual(t, time.Since(began), 6*time.Second+2)
			assert.NotZero(t, usage(wd, watchdog.TokensExceeded).Used, "it may be billed")
			assert.Nil(t, wd.Stop())
			time.Sleep(2 * time.Hour)
		})
	}
}

// TestModelUnread checks that the caller of the runner may leave in the middle of a stream.
func TestModelUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}})
		g, left := watchdogadk.New(limits), false
		m := scripted(func(context.Context, *model.LLMRequest) iter.Seq2[*model.LLMResponse, error] {
			return func(yield func(*model.LLMResponse, error) bool) {
				for yield(partial("a"), nil) {
					time.Sleep(time.Second)
				}
				left = true
			}
		})
		for r, err := range g.Model(m).GenerateContent(wd.Context(), &model.LLMRequest{}, true) {
			require.NoError(t, err)
			assert.True(t, r.Partial)
			break
		}
		assert.True(t, left, "the model was told, and had ended")
		assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
		assert.NotZero(t, usage(wd, watchdog.TokensExceeded).Used, "it may be billed")
	})
}

// TestModelReaderPanics checks that a reader that panics leaves neither a goroutine nor an open charge.
func TestModelReaderPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}})
		m := watchdogadk.New(limits).Model(scripted(stalls(0, partial("a"))))
		assert.PanicsWithValue(t, "boom", func() {
			for range m.GenerateContent(wd.Context(), &model.LLMRequest{}, true) {
				panic("boom")
			}
		})
		assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
	})
}

// A googleScript is a model of Google, which can be asked for live sessions.
type googleScript struct{ script }

func (*googleScript) GetGoogleLLMVariant() genai.Backend { return genai.BackendVertexAI }
func (*googleScript) Client() *genai.Client              { return &genai.Client{} }

// TestModelKinds checks that the SDK finds in a guarded model what it asks a model for.
func TestModelKinds(t *testing.T) {
	type (
		variant interface{ GetGoogleLLMVariant() genai.Backend }
		client  interface{ Client() *genai.Client }
	)
	g := watchdogadk.New(limits)
	plain, live := g.Model(scripted()), g.Model(&googleScript{})
	assert.Equal(t, "scripted", plain.Name())
	assert.NotImplements(t, (*variant)(nil), plain)
	assert.NotImplements(t, (*client)(nil), plain)
	assert.Equal(t, genai.BackendVertexAI, live.(variant).GetGoogleLLMVariant())
	assert.NotNil(t, live.(client).Client())
	onlyVariant := g.Model(struct {
		model.LLM
		variant
	}{scripted(), &googleScript{}})
	assert.Implements(t, (*variant)(nil), onlyVariant)
	assert.NotImplements(t, (*client)(nil), onlyVariant)
	for _, m := range []model.LLM{plain, live, onlyVariant} {
		assert.Same(t, m, g.Model(m), "it is wrapped once")
	}
}

// TestModelSpend checks what a call counts.
func TestModelSpend(t *testing.T) {
	boom, busy := errors.New("boom"), genai.APIError{Code: http.StatusTooManyRequests}
	for _, c := range []struct {
		name           string
		turn           turn
		used           int64
		errors         int64
		err            error
		admittedCounts bool
	}{
		{name: "what the answer says", turn: answers(0, used(whole(genai.NewPartFromText("a")), 100, 20)), used: 120},
		{
			name: "what the last piece says", used: 105,
			turn: answers(0, used(partial("a"), 100, 2), used(whole(genai.NewPartFromText("abc")), 100, 5)),
		},
		{
			name: "thoughts and the results of tools", used: 15,
			turn: answers(0, &model.LLMResponse{
				Content: genai.NewContentFromText("a", genai.RoleModel), TurnComplete: true,
				UsageMetadata: &genai.GenerateContentResponseUsageMetadata{
					PromptTokenCount: 1, ToolUsePromptTokenCount: 2, CandidatesTokenCount: 4, ThoughtsTokenCount: 8,
				},
			}),
		},
		{name: "an answer that says nothing counts as admitted", turn: says("a"), admittedCounts: true},
		{name: "a failure before an answer is free", turn: fails(boom), err: boom, errors: 1},
		{
			name: "a failure within an answer counts as admitted", turn: fails(boom, partial("a")), err: boom, errors: 1,
			admittedCounts: true,
		},
		{name: "or as it says", turn: fails(boom, used(partial("a"), 7, 1)), err: boom, errors: 1, used: 8},
		{name: "what goes away by itself is no error", turn: fails(busy), err: busy},
		{
			name: "a response that is none is an error", errors: 1, used: 3,
			turn: answers(0, used(&model.LLMResponse{ErrorCode: "SAFETY"}, 3, 0)),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000, Errors: 5}})
			cfg := watchdogadk.Config{MaxOutput: 400}
			_, err := newGuarded(t, watchdogadk.New(cfg), scripted(c.turn)).ask(wd.Context(), "go")
			if c.err == nil {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err.Error())
			}
			tokens := usage(wd, watchdog.TokensExceeded)
			if c.admittedCounts {
				assert.Greater(t, tokens.Used, int64(1024+400), "the envelope and the output, besides the request")
				assert.Less(t, tokens.Used, int64(2048+400))
			} else {
				assert.Equal(t, c.used, tokens.Used)
			}
			assert.Zero(t, tokens.Admitted)
			assert.Equal(t, c.errors, usage(wd, watchdog.ErrorsExceeded).Used)
		})
	}
}

// TestModelAdmits checks what a call is admitted with: the bytes of everything that is in the request, and the most
// that it may answer.
func TestModelAdmits(t *testing.T) {
	const size = 1000
	long := strings.Repeat("x", size)
	of := func(p *genai.Part) *model.LLMRequest {
		return &model.LLMRequest{Contents: []*genai.Content{nil, {Parts: []*genai.Part{nil, p}}}}
	}
	config := func(cfg genai.GenerateContentConfig) *model.LLMRequest { return &model.LLMRequest{Config: &cfg} }
	admitted := func(t *testing.T, req *model.LLMRequest) (tokens int64) {
		t.Helper()
		wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}})
		m := scripted(func(ctx context.Context, req *model.LLMRequest) iter.Seq2[*model.LLMResponse, error] {
			tokens = usage(wd, watchdog.TokensExceeded).Admitted
			return says("ok")(ctx, req)
		})
		for _, err := range watchdogadk.New(limits).Model(m).GenerateContent(wd.Context(), req, true) {
			require.NoError(t, err)
		}
		return tokens
	}
	empty := admitted(t, &model.LLMRequest{})
	for name, req := range map[string]*model.LLMRequest{
		"text":       of(genai.NewPartFromText(long)),
		"data":       of(genai.NewPartFromBytes([]byte(long), "image/png")),
		"a call":     of(genai.NewPartFromFunctionCall("look", map[string]any{"at": long})),
		"an answer":  of(genai.NewPartFromFunctionResponse("look", map[string]any{"at": long})),
		"a thought":  of(&genai.Part{ThoughtSignature: []byte(long)}),
		"code":       of(genai.NewPartFromExecutableCode(long, genai.LanguagePython)),
		"its output": of(genai.NewPartFromCodeExecutionResult(genai.OutcomeOK, long)),
		"the system's instruction": config(genai.GenerateContentConfig{
			SystemInstruction: genai.NewContentFromText(long, genai.RoleUser),
		}),
		"a tool": config(genai.GenerateContentConfig{Tools: []*genai.Tool{
			{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "look", Description: long}}},
		}}),
		"a schema":           config(genai.GenerateContentConfig{ResponseSchema: &genai.Schema{Description: long}}),
		"the output":         config(genai.GenerateContentConfig{MaxOutputTokens: size}),
		"output of many":     config(genai.GenerateContentConfig{MaxOutputTokens: size / 4, CandidateCount: 4}),
		"a schema as a text": config(genai.GenerateContentConfig{ResponseJsonSchema: long}),
	} {
		more := admitted(t, req) - empty
		assert.GreaterOrEqual(t, more, int64(size), name)
		assert.Less(t, more, int64(size+200), name)
	}
}

func pluginOf(t *testing.T, g *watchdogadk.Guard) *plugin.Plugin {
	t.Helper()
	p, err := g.Plugin()
	require.NoError(t, err)
	return p
}

// newPlugged is a stage with one agent, of which nothing is wrapped.
func newPlugged(t *testing.T, g *watchdogadk.Guard, m model.LLM, tools ...tool.Tool) *stage {
	t.Helper()
	p := pluginOf(t, g)
	assert.Equal(t, watchdogadk.PluginName, p.Name())
	return newStage(t, newAgent(t, llmagent.Config{Model: m, Tools: tools}), p)
}

// TestPluginSignals checks that events and calls of tools are signs of life, and nothing else.
func TestPluginSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		wd := newRun(t, watchdog.Budget{Idle: time.Minute})
		m := scripted(
			answers(time.Minute, partial("a"), partial("b"), whole(genai.NewPartFromFunctionCall("minute", nil))),
			answers(time.Minute, whole(genai.NewPartFromText("c"))), stalls(0))
		s := newPlugged(t, watchdogadk.New(limits), m,
			sleeps("minute", time.Minute))
		assert.Equal(t, "c", s.run(wd.Context()))
		began := time.Now()
		_, err := s.ask(wd.Context(), "again")
		require.Error(t, err)
		require.NotNil(t, wd.Stop())
		assert.Equal(t, watchdog.IdleExceeded, wd.Stop().Code)
		within(t, time.Minute, time.Since(began))
	})
}

// TestPluginTools checks that the begin and the end of each call are signs of life, also where no event comes.
func TestPluginTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Idle: time.Minute})
		s := newPlugged(t, watchdogadk.New(limits), scripted(calls("short", "long")),
			sleeps("short", 50*time.Second), sleeps("long", 100*time.Second))
		for event, err := range s.runner.Run(wd.Context(), user, sessionID, genai.NewContentFromText("go", genai.RoleUser),
			agent.RunConfig{}) {
			require.NoError(t, err)
			if event.Content.Parts[0].FunctionCall != nil {
				time.Sleep(50 * time.Second) // a host that is slow: the tools begin after it
			}
		}
		assert.Nil(t, wd.Stop())
	})
}

// TestPluginEvents checks that each event of an agent of any kind is a sign of life.
func TestPluginEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, g := newRun(t, watchdog.Budget{Idle: time.Minute}), watchdogadk.New(limits)
		steps := func(ctx agent.InvocationContext) iter.Seq2[*session.Event, error] {
			return func(yield func(*session.Event, error) bool) {
				for range 5 {
					time.Sleep(time.Minute)
					event := session.NewEvent(ctx, ctx.InvocationID())
					event.Content = genai.NewContentFromText("step", genai.RoleModel)
					if !yield(event, nil) {
						return
					}
				}
			}
		}
		a, err := agent.New(agent.Config{Name: "own", Run: steps})
		require.NoError(t, err)
		assert.Equal(t, "step", newStage(t, a, pluginOf(t, g)).run(wd.Context()))
		assert.Nil(t, wd.Stop())
	})
}

// TestPluginSpend checks that a call of a model counts once, whether it is wrapped or not.
func TestPluginSpend(t *testing.T) {
	for name, wrap := range map[string]func(*watchdogadk.Guard, model.LLM) model.LLM{
		"bare":    func(_ *watchdogadk.Guard, m model.LLM) model.LLM { return m },
		"wrapped": func(g *watchdogadk.Guard, m model.LLM) model.LLM { return g.Model(m) },
	} {
		t.Run(name, func(t *testing.T) {
			wd, g := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000, Errors: 5}}), watchdogadk.New(limits)
			look := toolOf("look", func(agent.Context, map[string]any) (map[string]any, error) {
				assert.EqualValues(t, 120, settled(t, wd))
				return map[string]any{}, nil
			})
			m := scripted(
				answers(0, partial("a"), used(whole(genai.NewPartFromFunctionCall("look", nil)), 100, 20)),
				answers(0, used(whole(genai.NewPartFromText("b")), 3, 4)), fails(errors.New("boom")))
			s := newPlugged(t, g, wrap(g, m), look)
			s.run(wd.Context())
			assert.EqualValues(t, 127, usage(wd, watchdog.TokensExceeded).Used)
			_, err := s.ask(wd.Context(), "again")
			require.ErrorContains(t, err, "boom")
			assert.EqualValues(t, 127, settled(t, wd))
			assert.EqualValues(t, 1, usage(wd, watchdog.ErrorsExceeded).Used)
		})
	}
}

// TestPluginParallel checks that the plugin tells the calls of agents apart that work at the same time.
func TestPluginParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, g := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}}), watchdogadk.New(limits)
		var team []agent.Agent
		for i := range 5 {
			m := scripted(answers(time.Duration(i+1)*time.Second, partial("a"), used(whole(genai.NewPartFromText("b")), 100, 10)))
			team = append(team, newAgent(t, llmagent.Config{Name: fmt.Sprintf("worker_%d", i), Model: m}))
		}
		workers, err := parallelagent.New(parallelagent.Config{AgentConfig: agent.Config{Name: "team", SubAgents: team}})
		require.NoError(t, err)
		newStage(t, workers, pluginOf(t, g)).run(wd.Context())
		assert.EqualValues(t, 5*110, settled(t, wd))
	})
}

// TestPluginWords checks that what the run asks for reaches the next request of the model once, and not the session.
func TestPluginWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{WallClock: time.Hour, Reserve: 10 * time.Minute})
		m := scripted(calls("slow"), calls("look"))
		s := newPlugged(t, watchdogadk.New(limits), m,
			sleeps("slow", 51*time.Minute), toolOf("look", ok))
		s.run(wd.Context())
		assert.NotContains(t, m.asked(0), "Call no more tools")
		assert.Contains(t, m.asked(1), "Call no more tools")
		assert.NotContains(t, m.asked(2), "Call no more tools")
		assert.NotContains(t, s.history(), "Call no more tools")
	})
}

// TestPluginRefused checks that a call that does not fit is not made.
func TestPluginRefused(t *testing.T) {
	quiet(t)
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Requests: 1}})
	m := scripted(calls("look"), calls("look"))
	_, err := newPlugged(t, watchdogadk.New(limits), m, toolOf("look", ok)).ask(wd.Context(), "go")
	var refused *watchdog.Refused
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, 1, m.count())
	<-wd.Context().Done()
}

// TestPluginCut checks that a call of which the SDK tells no end counts as admitted: one that is cut off, and one that
// another plugin answers.
func TestPluginCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, g := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}}), watchdogadk.New(limits)
		s := newPlugged(t, g, scripted(answers(time.Second, partial("a"), partial("b"), whole())))
		s.leave(wd.Context())
		time.Sleep(time.Minute)
		assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
		cut := usage(wd, watchdog.TokensExceeded).Used
		assert.Greater(t, cut, int64(1024))

		cached := []*genai.Part{genai.NewPartFromFunctionCall("look", nil), genai.NewPartFromText("cached")}
		cache, err := plugin.New(plugin.Config{
			Name: "cache",
			BeforeModelCallback: func(agent.Context, *model.LLMRequest) (*model.LLMResponse, error) {
				next := cached[0]
				cached = cached[1:]
				return whole(next), nil
			},
		})
		require.NoError(t, err)
		a := newAgent(t, llmagent.Config{Model: scripted(), Tools: []tool.Tool{toolOf("look", ok)}})
		assert.Equal(t, "cached", newStage(t, a, pluginOf(t, g), cache).run(wd.Context()))
		assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
		assert.Greater(t, usage(wd, watchdog.TokensExceeded).Used, cut)
	})
}

// TestPluginWithoutRun checks that a plugin does nothing to an agent in no run.
func TestPluginWithoutRun(t *testing.T) {
	assert.Equal(t, "done", newPlugged(t, watchdogadk.New(limits), scripted(calls("look")), toolOf("look", ok)).run(t.Context()))
}

// TestPluginAgain checks that a call of a wrapped model that is made again counts twice, and not more, with the plugin.
func TestPluginAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{
			Idle: time.Minute, Spend: watchdog.Spend{Requests: 9, Tokens: 100_000},
			Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry}},
		})
		g := watchdogadk.New(limits)
		m := scripted(stalls(0, used(partial("half"), 7, 1)), answers(0, used(whole(genai.NewPartFromText("whole")), 100, 20)))
		assert.Equal(t, "whole", newPlugged(t, g, g.Model(m)).run(wd.Context()))
		assert.EqualValues(t, 2, usage(wd, watchdog.RequestsExceeded).Used)
		assert.EqualValues(t, 128, settled(t, wd))
	})
}

// TestMany checks that calls by the SDK's runner leave no memory; nor goroutines, as TestMain checks.
func TestMany(t *testing.T) {
	wd, g, n := newRun(t, watchdog.Budget{Spend: watchdog.Spend{ToolCalls: 1 << 40}}), watchdogadk.New(limits), 0
	p := pluginOf(t, g)
	var mu sync.Mutex
	look := toolOf("look", func(agent.Context, map[string]any) (map[string]any, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		return map[string]any{"n": n}, nil
	})
	agents := func(count int) int64 {
		for range count {
			m := scripted(calls(slices.Repeat([]string{"look"}, 20)...))
			a := newAgent(t, llmagent.Config{Model: g.Model(m), Tools: g.Tools(look)})
			ctx, done := context.WithCancel(wd.Context()) // the SDK keeps what it makes of a context until that ends
			newStage(t, a, p).run(ctx)
			done()
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := agents(20)
	assert.Less(t, agents(100)-before, int64(512<<10), "bytes after 2,000 calls")
}
