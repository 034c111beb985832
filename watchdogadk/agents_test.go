package watchdogadk_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/agenttool"
	"google.golang.org/adk/v2/tool/toolconfirmation"
	"google.golang.org/genai"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

// TestParallelTools checks that the tools of one turn hang and answer each for itself.
func TestParallelTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		wd, m := newRun(t, watchdog.Budget{Idle: time.Second}), scripted(calls("quick", "hang", "deaf", "quick"))
		s := newGuarded(t, watchdogadk.New(limits), m,
			toolOf("quick", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
				time.Sleep(time.Millisecond)
				return map[string]any{"result": "quick"}, ctx.State().Set("quick", true)
			}),
			toolOf("hang", until),
			toolOf("deaf", func(agent.Context, map[string]any) (map[string]any, error) {
				time.Sleep(time.Hour)
				return nil, errors.New("late")
			}))
		began := time.Now()
		s.run(wd.Context())
		within(t, time.Minute+5*time.Second, time.Since(began))
		told := unescaped(m.asked(1))
		assert.Equal(t, 2, strings.Count(told, `{"result":"quick"}`), told)
		assert.Contains(t, told, `The call of the tool "hang" was ended`)
		assert.Contains(t, told, `The call of the tool "deaf" was ended`)
		assert.Equal(t, true, s.state("quick"))
		time.Sleep(time.Hour)
	})
}

// TestAgentTool checks that an agent that is a tool is in the run: what it spends counts, it ends with the run, and it
// may be silent, as a tool.
func TestAgentTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Idle: time.Second, Spend: watchdog.Spend{Tokens: 100_000, ToolCalls: 10}})
		g := watchdogadk.New(watchdogadk.Config{})
		inner := scripted(calls("slow"), answers(30*time.Second, used(whole(genai.NewPartFromText("found")), 100, 10)))
		helper := newAgent(t, llmagent.Config{
			Name: "helper", Model: g.Model(inner), Tools: g.Tools(
				toolOf("slow", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
					assert.NotEqual(t, wd.ID(), watchdog.FromContext(ctx).ID(), "a layer")
					time.Sleep(10 * time.Minute)
					return map[string]any{}, nil
				})),
		})
		outer := scripted(asks("helper", "request", "find"), answers(0, used(whole(genai.NewPartFromText("done")), 1000, 1)))
		s := newStage(t, newAgent(t, llmagent.Config{
			Model: g.Model(outer), Tools: g.Tools(agenttool.New(helper, nil)),
		}), pluginOf(t, g))
		assert.Equal(t, "done", s.run(wd.Context()))
		assert.Contains(t, outer.asked(1), `{"result":"found"}`)
		assert.EqualValues(t, 2, usage(wd, watchdog.ToolCallsExceeded).Used, "helper and slow")
		assert.Greater(t, usage(wd, watchdog.TokensExceeded).Used, int64(1111), "two calls say what they used, two do not")
		assert.Zero(t, usage(wd, watchdog.TokensExceeded).Admitted)
	})
}

// TestTransfer checks that an agent to which another one transfers is in the run.
func TestTransfer(t *testing.T) {
	wd, g := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}}), watchdogadk.New(limits)
	helper := newAgent(t, llmagent.Config{
		Name: "helper", Model: g.Model(scripted(answers(0, used(whole(genai.NewPartFromText("helped")), 100, 10)))),
	})
	root := newAgent(t, llmagent.Config{
		Name: "root", SubAgents: []agent.Agent{helper},
		Model: g.Model(scripted(answers(0,
			used(whole(genai.NewPartFromFunctionCall("transfer_to_agent", map[string]any{"agent_name": "helper"})), 1000, 1)))),
	})
	assert.Equal(t, "helped", newStage(t, root, pluginOf(t, g)).run(wd.Context()))
	assert.EqualValues(t, 1111, settled(t, wd))
}

// usage returns how far a limit is used.
func usage(wd *watchdog.Watchdog, code watchdog.StopReason) (of watchdog.Usage) {
	for _, u := range wd.Usage() {
		if u.Code() == code {
			of = u
		}
	}
	return of
}

// settled returns the tokens that a run has used, of calls that are all over.
func settled(t *testing.T, wd *watchdog.Watchdog) int64 {
	t.Helper()
	of := usage(wd, watchdog.TokensExceeded)
	assert.Zero(t, of.Admitted)
	return of.Used
}

// begun are the runs of the invocations of a test.
type begun struct {
	mu   sync.Mutex
	runs []*watchdog.Watchdog
}

func (b *begun) add(wd *watchdog.Watchdog, err error) (*watchdog.Watchdog, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs = append(b.runs, wd)
	return wd, err
}

// each begins a run of its own for each invocation.
func (b *begun) each(budget watchdog.Budget) func(agent.InvocationContext) (*watchdog.Watchdog, error) {
	return func(ctx agent.InvocationContext) (*watchdog.Watchdog, error) {
		return b.add(watchdog.New(ctx, watchdog.Run{}, watchdog.Config{Budget: budget}))
	}
}

// newInvocations is a stage with one agent, whose model and tools are guarded and whose invocations are runs.
func newInvocations(
	t *testing.T, begin func(agent.InvocationContext) (*watchdog.Watchdog, error), m model.LLM, tools ...tool.Tool,
) *stage {
	t.Helper()
	g := watchdogadk.New(limits)
	p, err := g.Invocations(begin)
	require.NoError(t, err)
	return newStage(t, newAgent(t, llmagent.Config{Model: g.Model(m), Tools: g.Tools(tools...)}), p)
}

// TestInvocations checks that nobody is silent while a person thinks, and that a turn which hangs ends without the
// conversation.
func TestInvocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		var all begun
		m := scripted(says("one"), calls("look"), says("two"), stalls(0), says("four"), stalls(time.Hour))
		s := newInvocations(t, all.each(watchdog.Budget{Idle: time.Minute}), m,
			toolOf("look", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
				assert.Equal(t, all.runs[1].ID(), watchdog.FromContext(ctx).Parent(), "a layer of its turn")
				return ok(ctx, nil)
			}))
		for _, turn := range []struct {
			says string
			took time.Duration
		}{{"one", 0}, {"two", 0}, {"", time.Minute}, {"four", 0}, {"", time.Minute + limits.Tools.Grace}} {
			began := time.Now()
			last, err := s.ask(t.Context(), "go")
			assert.Equal(t, turn.says, last)
			within(t, turn.took, time.Since(began))
			if turn.says == "" {
				require.ErrorIs(t, err, watchdog.IdleExceeded)
			} else {
				require.NoError(t, err)
			}
			time.Sleep(time.Hour) // the person thinks
		}
		require.Len(t, all.runs, 5)
		assert.Equal(t, watchdog.IdleExceeded, all.runs[2].Stop().Code)
		for _, wd := range []int{0, 1, 3} {
			assert.ErrorIs(t, context.Cause(all.runs[wd].Context()), watchdog.ErrClosed)
			assert.Nil(t, all.runs[wd].Stop())
		}
	})
}

// TestInvocationsTool checks that the run of an invocation ends its tools, whose context has nothing of the run.
func TestInvocationsTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		var all begun
		stream := streamOf("tail", func(ctx agent.Context, _ map[string]any, yield func(string, error) bool) {
			<-ctx.Done()
			yield("", context.Cause(ctx))
		})
		m := scripted(calls("hang"), calls("tail"), stalls(0))
		s := newInvocations(t, all.each(watchdog.Budget{WallClock: time.Second}), m, toolOf("hang", until), stream)
		for range 2 {
			began := time.Now()
			_, err := s.ask(t.Context(), "go")
			require.ErrorIs(t, err, watchdog.WallClockExceeded)
			within(t, time.Second, time.Since(began))
		}
	})
}

// TestInvocationsParallel checks that conversations at the same time have runs of their own.
func TestInvocationsParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		var all begun
		m := scripted(stalls(0), answers(50*time.Second, partial("a"), partial("b"), whole(genai.NewPartFromText("lives"))))
		s := newInvocations(t, all.each(watchdog.Budget{Idle: time.Minute}), m)
		ask := func(session string) <-chan error {
			done := make(chan error, 1)
			go func() {
				var failed error
				message := genai.NewContentFromText("go", genai.RoleUser)
				for _, err := range s.runner.Run(t.Context(), user, session, message, agent.RunConfig{}) {
					failed = errors.Join(failed, err)
				}
				done <- failed
			}()
			synctest.Wait()
			return done
		}
		first, second := ask("s-1"), ask("s-2")
		require.ErrorIs(t, <-first, watchdog.IdleExceeded)
		require.NoError(t, <-second)
	})
}

// TestInvocationsLayer checks that limits of the whole conversation count in a run around the turns, which the host
// gives as their context.
func TestInvocationsLayer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		wd := newRun(t, watchdog.Budget{WallClock: watchdog.NoLimit, Spend: watchdog.Spend{Tokens: 100_000}})
		m := scripted(answers(0, used(whole(genai.NewPartFromFunctionCall("look", nil)), 100, 20)),
			answers(0, used(whole(genai.NewPartFromText("b")), 3, 4)),
			answers(0, used(whole(genai.NewPartFromText("c")), 5, 6)), stalls(0))
		s := newInvocations(t, func(agent.InvocationContext) (*watchdog.Watchdog, error) {
			return wd.Layer("turn", watchdog.Budget{Idle: time.Minute})
		}, m, toolOf("look", ok))
		for _, tokens := range []int64{127, 138} {
			s.run(wd.Context())
			assert.Equal(t, tokens, usage(wd, watchdog.TokensExceeded).Used)
			time.Sleep(10 * time.Hour)
		}
		_, err := s.ask(wd.Context(), "go")
		require.ErrorIs(t, err, watchdog.IdleExceeded)
		assert.Nil(t, wd.Stop(), "the conversation goes on")
	})
}

// TestInvocationsInside checks that an agent that is a tool, which has a runner of its own, is in the run of the turn.
func TestInvocationsInside(t *testing.T) {
	var all begun
	g := watchdogadk.New(limits)
	p, err := g.Invocations(all.each(watchdog.Budget{Spend: watchdog.Spend{Tokens: 100_000}}))
	require.NoError(t, err)
	helper := newAgent(t, llmagent.Config{Name: "helper", Model: g.Model(scripted(
		answers(0, used(whole(genai.NewPartFromText("helped")), 100, 20))))})
	call := genai.NewPartFromFunctionCall("helper", map[string]any{"request": "help"})
	m := scripted(answers(0, used(whole(call), 1, 2)), answers(0, used(whole(genai.NewPartFromText("b")), 3, 4)))
	s := newStage(t, newAgent(t, llmagent.Config{Model: g.Model(m), Tools: g.Tools(agenttool.New(helper, nil))}), p)
	s.run(t.Context())
	assert.EqualValues(t, 130, usage(all.runs[0], watchdog.TokensExceeded).Used)
}

// TestInvocationsLeft checks that the run ends with an invocation whose reader leaves.
func TestInvocationsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all begun
		s := newInvocations(t, all.each(watchdog.Budget{}), scripted(answers(time.Second, partial("a"), partial("b"), whole())))
		s.leave(t.Context())
		assert.ErrorIs(t, context.Cause(all.runs[0].Context()), watchdog.ErrClosed)
	})
}

// TestInvocationsConfirmed checks that a person may think about an approval for as long as it takes: the invocation that
// goes on is another run.
func TestInvocationsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet(t)
		var all begun
		m, g := scripted(calls("deploy")), watchdogadk.New(limits)
		p, err := g.Invocations(all.each(watchdog.Budget{WallClock: time.Hour, Idle: time.Minute}))
		require.NoError(t, err)
		deploy := set{toolOf("deploy", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
			assert.Equal(t, all.runs[1].ID(), watchdog.FromContext(ctx).Parent())
			return map[string]any{"result": "deployed"}, nil
		})}
		s := newStage(t, newAgent(t, llmagent.Config{
			Model: g.Model(m), Toolsets: g.Toolsets(tool.WithConfirmation(deploy, true, nil)),
		}), p)
		s.run(t.Context())
		time.Sleep(10 * time.Hour)
		s.answer(t.Context(), toolconfirmation.FunctionCallName, map[string]any{"confirmed": true})
		assert.Contains(t, m.asked(m.count()-1), "deployed")
		assert.Len(t, all.runs, 2)
	})
}

// TestInvocationsNone checks what a host that begins no run gets, and that one whose run cannot begin is told.
func TestInvocationsNone(t *testing.T) {
	boom := errors.New("boom")
	var fails error
	s := newInvocations(t, func(agent.InvocationContext) (*watchdog.Watchdog, error) { return nil, fails },
		scripted(calls("look")), toolOf("look", ok))
	assert.Equal(t, "done", s.run(t.Context()))
	fails = boom
	_, err := s.ask(t.Context(), "go")
	require.ErrorIs(t, err, boom)
}

// TestInvocationsTogether checks that parts of one invocation at the same time are one run until the last of them ends,
// as when two answers of a person continue it.
func TestInvocationsTogether(t *testing.T) {
	var all begun
	p, err := watchdogadk.New(limits).Invocations(all.each(watchdog.Budget{Idle: time.Hour}))
	require.NoError(t, err)
	first, second := &invocation{agent.NewStrictContextMock(t.Context())}, &invocation{agent.NewStrictContextMock(t.Context())}
	for _, ctx := range []agent.InvocationContext{first, second} {
		_, err := p.BeforeRunCallback()(ctx)
		require.NoError(t, err)
	}
	closed := func(n int) bool { return errors.Is(context.Cause(all.runs[n].Context()), watchdog.ErrClosed) }
	assert.Equal(t, []bool{false, true}, []bool{closed(0), closed(1)})
	p.AfterRunCallback()(first)
	p.AfterRunCallback()(first)
	assert.False(t, closed(0))
	p.AfterRunCallback()(second)
	assert.True(t, closed(0))
}

type invocation struct{ agent.StrictContextMock }

func (*invocation) InvocationID() string { return "e-1" }

type runnable interface {
	Run(agent.Context, any) (map[string]any, error)
}

// inTool has the work done by a tool that the runner calls, with its context.
func inTool(b *testing.B, work func(agent.Context)) {
	b.Helper()
	a, err := llmagent.New(llmagent.Config{Name: "coder", Model: scripted(calls("drive")), Tools: []tool.Tool{
		toolOf("drive", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
			work(ctx)
			return map[string]any{}, nil
		}),
	}})
	require.NoError(b, err)
	r, err := runner.NewInMemory(app, a)
	require.NoError(b, err)
	message := genai.NewContentFromText("go", genai.RoleUser)
	for _, err := range r.Run(newRun(b, watchdog.Budget{Idle: time.Hour}).Context(), user, sessionID, message, agent.RunConfig{}) {
		require.NoError(b, err)
	}
}

// BenchmarkTool is a call of a tool that answers at once.
func BenchmarkTool(b *testing.B) {
	bare := toolOf("look", ok)
	args := map[string]any{"query": "x"}
	for name, t := range map[string]tool.Tool{
		"bare": bare, "guarded": watchdogadk.New(watchdogadk.Config{}).Tool(bare),
	} {
		b.Run(name, func(b *testing.B) {
			inTool(b, func(ctx agent.Context) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := t.(runnable).Run(ctx, args); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkPiece is one piece of an answer that streams.
func BenchmarkPiece(b *testing.B) {
	piece := partial("a")
	m := scripted()
	for name, wrap := range map[string]func(model.LLM) model.LLM{
		"bare": func(m model.LLM) model.LLM { return m }, "guarded": watchdogadk.New(watchdogadk.Config{}).Model,
	} {
		b.Run(name, func(b *testing.B) {
			wd := newRun(b, watchdog.Budget{Idle: time.Hour})
			m.turns = []turn{func(context.Context, *model.LLMRequest) iter.Seq2[*model.LLMResponse, error] {
				return func(yield func(*model.LLMResponse, error) bool) {
					for yield(piece, nil) {
					}
				}
			}}
			b.ReportAllocs()
			b.ResetTimer()
			n := 0
			for range wrap(m).GenerateContent(wd.Context(), &model.LLMRequest{}, true) {
				if n++; n == b.N {
					break
				}
			}
		})
	}
}
