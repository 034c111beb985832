package watchdogeino_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogeino"
)

// TestParallel checks that the calls of one answer run side by side, each with its own limit.
func TestParallel(t *testing.T) {
	eachWay(t, "", func(t *testing.T, streaming bool) {
		wd := newRun(t, watchdog.Budget{Idle: time.Minute})
		cfg := limits
		cfg.Tool = map[string]watchdogeino.Limits{"slow": {Limit: 20 * time.Minute}}
		m := scripted(calls("hammer", "slow", "look", "hammer"), says("done"))
		slow := streamable{"slow", func(ctx context.Context, _ func(string) bool) error { return until(ctx) }}
		began := time.Now()
		_, err := ask(wd.Context(), newAgent(t, watchdogeino.New(cfg), m, kinds(until)["invokable"], slow, look), streaming)
		require.NoError(t, err)
		within(t, 20*time.Minute, time.Since(began))
		read := m.sent(1)[2:]
		require.Len(t, read, 4)
		assert.Contains(t, textOf(read[0]), `"hammer" was ended: it did not finish within its limit of 10m0s`)
		assert.Contains(t, textOf(read[1]), `"slow" was ended: it did not finish within its limit of 20m0s`)
		assert.Equal(t, "nothing", textOf(read[2]))
		assert.Contains(t, textOf(read[3]), `"hammer" was ended`)
	})
}

// TestUnstuck checks that the calls of one answer are one turn, in any order, and that a model which gets nowhere with
// them reads that in the third, and is ended two rounds later.
func TestUnstuck(t *testing.T) {
	eachWay(t, "", func(t *testing.T, streaming bool) {
		wd := newRun(t, watchdog.Budget{Idle: time.Minute})
		listen := streamable{"listen", func(_ context.Context, send func(string) bool) error { send("nothing"); return nil }}
		m := scripted(calls("look", "listen", "look"))
		_, err := ask(wd.Context(), newAgent(t, watchdogeino.New(limits), m, listen, look), streaming)
		require.ErrorIs(t, err, watchdog.LoopDetected)
		stopped(t, wd, watchdog.LoopDetected)
		require.Equal(t, 5, m.calls())
		for call := range 5 {
			assert.Equal(t, call == 3, strings.HasPrefix(m.last(call), "You repeat yourself"), "call %d", call)
		}
		assert.Contains(t, textOf(m.sent(4)[len(m.sent(3))-1]), "You repeat yourself", "it stays in the history")
	})
}

// TestSubAgent checks that an agent that is a tool is bounded as one, that its tools are, and that it spends the run's.
func TestSubAgent(t *testing.T) {
	for _, c := range []struct {
		name   string
		limit  time.Duration // of the sub-agent
		took   time.Duration
		reads  string // the sub-agent, of its tool
		answer string // the agent, of the sub-agent
		used   int64
	}{
		{
			name: "a tool of it hangs", limit: time.Hour, took: 10*time.Minute + 5*time.Second,
			reads: `"hammer" was ended`, answer: "no nails", used: 4 * 120,
		},
		{
			name: "it hangs", limit: 5 * time.Minute, took: 5 * time.Minute,
			answer: `The call of the tool "helper" was ended: it did not finish within its limit of 5m0s`, used: 3 * 120,
		},
	} {
		eachWay(t, c.name, func(t *testing.T, streaming bool) {
			wd := newRun(t, watchdog.Budget{Idle: time.Minute, Spend: watchdog.Spend{Tokens: 100_000}})
			cfg := limits
			cfg.Tool = map[string]watchdogeino.Limits{"helper": {Limit: c.limit}}
			guard := watchdogeino.New(cfg)
			inner := scripted(costs(calls("hammer"), 100, 20), costs(says("no nails"), 100, 20))
			sub := adk.NewAgentTool(t.Context(), newAgent(t, guard, inner, kinds(deaf)["invokable"]))
			outer := scripted(costs(calls("helper"), 100, 20), costs(says("done"), 100, 20))
			began := time.Now()
			last, err := ask(wd.Context(), newAgent(t, guard, outer, sub), streaming)
			require.NoError(t, err)
			assert.Equal(t, "done", last)
			took := time.Since(began)
			assert.GreaterOrEqual(t, took, c.took)
			assert.LessOrEqual(t, took, c.took+5*time.Second+time.Microsecond)
			assert.Contains(t, inner.last(1), c.reads)
			assert.Contains(t, outer.last(1), c.answer)
			assert.Equal(t, c.used, wd.Usage()[0].Used)
			assert.Zero(t, wd.Usage()[0].Admitted)
			assert.Nil(t, wd.Stop())
			time.Sleep(time.Hour)
		})
	}
}

// TestSecret checks that nothing of a prompt, an input or an output is in an event or in the log.
func TestSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const canary = "hunter2"
		memory, logged := &watchdog.Memory{}, &bytes.Buffer{}
		log := slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
			Store: memory, Budget: watchdog.Budget{Idle: time.Minute, WallClock: 3 * time.Hour}, Logger: log,
		})
		require.NoError(t, err)
		hammer := invokable{"hammer", func(ctx context.Context, _ string) (string, error) { return canary, deaf(ctx) }}
		asks := func(ctx context.Context, send func(*schema.Message)) error {
			send(schema.AssistantMessage(canary, []schema.ToolCall{{
				ID: canary, Function: schema.FunctionCall{Name: "hammer", Arguments: `"` + canary + `"`},
			}}))
			return nil
		}
		m := scripted(asks, asks, asks, asks, asks, stalls(until, canary))
		_, err = ask(wd.Context(), newAgent(t, watchdogeino.New(limits), m, hammer), true)
		require.Error(t, err)
		require.NoError(t, wd.Close())
		time.Sleep(time.Hour) // what was abandoned returns
		synctest.Wait()
		assert.Contains(t, logged.String(), "abandoned")
		assert.NotContains(t, logged.String(), canary)
		ids, err := memory.Layers(t.Context(), "s-1")
		require.NoError(t, err)
		require.NotEmpty(t, ids)
		for _, id := range append(ids, "s-1") {
			events, err := memory.Read(t.Context(), watchdog.AggregateType, id)
			require.NoError(t, err)
			require.NotEmpty(t, events)
			text, err := json.Marshal(events)
			require.NoError(t, err)
			assert.NotContains(t, string(text), canary)
		}
	})
}

// TestNothing checks that a tool that answers nothing is to the agent what it is without a guard. It is not in a
// bubble: the SDK leaves some of these streams to a finalizer, which is outside of it.
func TestNothing(t *testing.T) {
	for name, nothing := range map[string]tool.BaseTool{
		"a text":    invokable{"hammer", func(context.Context, string) (string, error) { return "", nil }},
		"a stream":  streamable{"hammer", func(context.Context, func(string) bool) error { return nil }},
		"no stream": noStream{"hammer"},
		"no result": noResult{"hammer"},
	} {
		for _, streaming := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " streaming ", streaming), func(t *testing.T) {
				wd := newRun(t, watchdog.Budget{Idle: time.Minute, Spend: watchdog.Spend{ToolCalls: 9}})
				m := scripted(calls("hammer"), says("done"))
				guarded, err := ask(wd.Context(), newAgent(t, watchdogeino.New(limits), m, nothing), streaming)
				bare, failed := ask(t.Context(), newNamed(t, nil, "helper", scripted(calls("hammer"), says("done")), nothing), streaming)
				assert.Equal(t, bare, guarded)
				assert.Equal(t, failed == nil, err == nil, "%v in place of %v", err, failed)
				assert.Zero(t, wd.Usage()[0].Admitted)
				assert.Nil(t, wd.Stop())
			})
		}
	}
}

type noStream struct{ named }

func (noStream) StreamableRun(context.Context, string, ...tool.Option) (*schema.StreamReader[string], error) {
	return nil, nil
}

type noResult struct{ named }

func (noResult) InvokableRun(context.Context, *schema.ToolArgument, ...tool.Option) (*schema.ToolResult, error) {
	return nil, nil
}

// stalls begins an answer and hangs.
func stalls(hang func(context.Context) error, pieces ...string) turn {
	return func(ctx context.Context, send func(*schema.Message)) error {
		_ = says(pieces...)(ctx, send)
		return hang(ctx)
	}
}

// TestStalls checks that a model that says nothing ends with the run's idle, also one that ignores its context.
func TestStalls(t *testing.T) {
	for _, c := range []struct {
		name string
		turn turn
		took time.Duration
	}{
		{"silent", stalls(until), time.Minute},
		{"silent after a piece", stalls(until, "I "), time.Minute},
		{"silent and deaf", stalls(deaf), time.Minute + 5*time.Second},
		{"silent and deaf after a piece", stalls(deaf, "I "), time.Minute + 5*time.Second},
	} {
		eachWay(t, c.name, func(t *testing.T, streaming bool) {
			wd := newRun(t, watchdog.Budget{Idle: time.Minute})
			began := time.Now()
			_, err := ask(wd.Context(), newAgent(t, watchdogeino.New(limits), scripted(c.turn)), streaming)
			require.Error(t, err)
			took := time.Since(began)
			assert.GreaterOrEqual(t, took, time.Minute)
			assert.LessOrEqual(t, took, c.took+time.Microsecond)
			stopped(t, wd, watchdog.IdleExceeded)
			time.Sleep(time.Hour)
		})
	}
}

// TestAlive checks that each piece of an answer is a sign of life.
func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Idle: time.Minute})
		m := scripted(func(_ context.Context, send func(*schema.Message)) error {
			for range 10 {
				time.Sleep(time.Minute)
				send(schema.AssistantMessage("x", nil))
			}
			return nil
		})
		last, err := ask(wd.Context(), newAgent(t, watchdogeino.New(limits), m), true)
		require.NoError(t, err)
		assert.Equal(t, "xxxxxxxxxx", last)
		assert.Nil(t, wd.Stop())
	})
}

// TestAgain checks that a model that hangs is asked again where the run's ladder says so, and reads why.
func TestAgain(t *testing.T) {
	budget := watchdog.Budget{Idle: time.Minute, Ladders: watchdog.Ladders{
		Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveUnstuck, watchdog.DirectiveCancel},
	}}
	eachWay(t, "until it answers", func(t *testing.T, streaming bool) {
		budget.Spend.Errors = 1 // what is made again is no error
		wd := newRun(t, budget)
		m := scripted(stalls(until), stalls(deaf), calls("look"), says("done"))
		last, err := ask(wd.Context(), newAgent(t, watchdogeino.New(limits), m, look), streaming)
		require.NoError(t, err)
		assert.Equal(t, "done", last)
		assert.Len(t, m.sent(0), 1)
		assert.Len(t, m.sent(1), 2)
		assert.Contains(t, m.last(1), "Do it again, in smaller parts")
		assert.Len(t, m.sent(2), 3)
		assert.Contains(t, m.last(2), "try another way")
		require.Len(t, m.sent(3), 5, "it stays in the history")
		assert.Equal(t, schema.User, m.sent(3)[2].Role)
		assert.Equal(t, schema.Assistant, m.sent(3)[3].Role, "in front of the answer to it")
		time.Sleep(time.Hour)
	})
	bubble(t, "unless a part of the answer was used", func(t *testing.T) {
		wd := newRun(t, budget)
		m := scripted(stalls(until, "I "), says("done"))
		_, err := ask(wd.Context(), newAgent(t, watchdogeino.New(limits), m), true)
		var directive *watchdog.Directive
		require.ErrorAs(t, err, &directive)
		assert.Equal(t, 1, m.calls())
	})
	bubble(t, "by the SDK, if that retries", func(t *testing.T) {
		wd := newRun(t, budget)
		m := scripted(stalls(until, "I "), says("done"))
		agent, err := adk.NewChatModelAgent(t.Context(), &adk.ChatModelAgentConfig{
			Name: "helper", Description: "helps", Model: m,
			Handlers:         []adk.ChatModelAgentMiddleware{watchdogeino.New(limits)},
			ModelRetryConfig: &adk.ModelRetryConfig{MaxRetries: 1},
		})
		require.NoError(t, err)
		last, _ := ask(wd.Context(), agent, true)
		assert.Equal(t, "done", last)
		assert.Contains(t, m.last(1), "Do it again")
	})
}

// TestSpend checks what a call is charged.
func TestSpend(t *testing.T) {
	const admitted = 16 + 1024 + int64(len("go on")) + 200
	boom := errors.New("boom")
	for _, c := range []struct {
		name string
		turn turn
		used int64
	}{
		{"what it says", costs(says("a", "b"), 100, 20), 120},
		{"what it says last, if it says so with each piece", costs(costs(says("a"), 100, 1), 100, 20), 120},
		{"what was admitted, if it says nothing", says("a"), admitted},
		{"nothing, if it fails before it says anything", func(context.Context, func(*schema.Message)) error { return boom }, 0},
	} {
		eachWay(t, c.name, func(t *testing.T, streaming bool) {
			wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 10_000}})
			_, err := ask(wd.Context(), newAgent(t, watchdogeino.New(watchdogeino.Config{MaxOutput: 200}), scripted(c.turn)), streaming)
			if c.used == 0 {
				require.ErrorIs(t, err, boom)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, c.used, wd.Usage()[0].Used)
			assert.Zero(t, wd.Usage()[0].Admitted)
		})
	}
}

// An overloaded error goes away by itself.
type overloaded struct{}

func (overloaded) Error() string   { return "overloaded" }
func (overloaded) Temporary() bool { return true }

// TestErrors checks that errors in a row count, but not those that go away by themselves.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err             error
		errors, retries int64
	}{{errors.New("boom"), 1, 0}, {overloaded{}, 0, 1}} {
		wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Errors: 9, Retries: 9}})
		m, err := watchdogeino.New(limits).WrapModel(t.Context(),
			scripted(func(context.Context, func(*schema.Message)) error { return c.err }), nil)
		require.NoError(t, err)
		_, err = m.Generate(wd.Context(), nil)
		require.ErrorIs(t, err, c.err)
		assert.Equal(t, c.errors, wd.Usage()[0].Used)
		assert.Equal(t, c.retries, wd.Usage()[1].Used)
	}
}

// TestModelPanics checks that a panic of a model is one of its caller, and that it is charged.
func TestModelPanics(t *testing.T) {
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Requests: 9, Errors: 9}})
	m, err := watchdogeino.New(limits).WrapModel(t.Context(),
		scripted(func(context.Context, func(*schema.Message)) error { panic("boom") }), nil)
	require.NoError(t, err)
	assert.Panics(t, func() { _, _ = m.Generate(wd.Context(), nil) })
	assert.Zero(t, wd.Usage()[0].Admitted)
	assert.EqualValues(t, 1, wd.Usage()[1].Used)
}

// TestAdmitted checks that all that a request holds is admitted, and what it names.
func TestAdmitted(t *testing.T) {
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tokens: 1 << 20}})
	inner := scripted(says("a"))
	var admitted watchdog.Amount
	guard := watchdogeino.New(watchdogeino.Config{Cost: func(name string, a watchdog.Amount) watchdog.Money {
		assert.Equal(t, "m-1", name)
		admitted = a
		return watchdog.Money{}
	}})
	tools := []*schema.ToolInfo{{
		Name: "look", Desc: "looks",
		ParamsOneOf: schema.NewParamsOneOfByParams(map[string]*schema.ParameterInfo{"at": {Type: schema.String}}),
	}}
	bound, err := guard.Model(inner).WithTools(tools)
	require.NoError(t, err)
	_, err = bound.Generate(wd.Context(), nil, model.WithModel("m-1"))
	require.NoError(t, err)
	assert.Greater(t, admitted.InputTokens, int64(1024+16+9), "tools that the model knows of count as well")
	m, err := guard.WrapModel(t.Context(), inner, nil)
	require.NoError(t, err)
	_, err = m.Generate(wd.Context(), []*schema.Message{
		schema.SystemMessage("12345"),
		{Role: schema.Assistant, ReasoningContent: "123", ToolCalls: []schema.ToolCall{{ID: "1", Function: schema.FunctionCall{Name: "a", Arguments: "{}"}}}},
		schema.ToolMessage("1234567", "1"),
		{Role: schema.User, UserInputMultiContent: []schema.MessageInputPart{{Type: schema.ChatMessagePartTypeText, Text: "12345678"}}},
	}, model.WithModel("m-1"), model.WithMaxTokens(77), model.WithTools(tools))
	require.NoError(t, err)
	assert.EqualValues(t, 77, admitted.OutputTokens)
	assert.Greater(t, admitted.InputTokens, int64(1024+5*16+5+7+8+8+9))
	assert.Less(t, admitted.InputTokens, int64(1024+5*16+5+7+8+8+9+100))
}

// BenchmarkTool is a call of a tool, bare and with its hold, its layer and its step, in a run that is kept in memory.
func BenchmarkTool(b *testing.B) {
	bare := func(context.Context, string, ...tool.Option) (string, error) { return "ok", nil }
	wd := newRun(b, watchdog.Budget{Idle: time.Hour})
	guarded, err := watchdogeino.New(watchdogeino.Config{}).WrapInvokableToolCall(wd.Context(), bare, &adk.ToolContext{Name: "look"})
	require.NoError(b, err)
	for name, call := range map[string]adk.InvokableToolCallEndpoint{"bare": bare, "guarded": guarded} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := call(wd.Context(), `{"q":"x"}`); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPiece is one piece of a model's answer, from its sender to its reader.
func BenchmarkPiece(b *testing.B) {
	wd := newRun(b, watchdog.Budget{Idle: time.Hour})
	piece := schema.AssistantMessage("x", nil)
	for _, guarded := range []bool{false, true} {
		name := map[bool]string{false: "bare", true: "guarded"}[guarded]
		b.Run(name, func(b *testing.B) {
			var m model.BaseChatModel = scripted(func(_ context.Context, send func(*schema.Message)) error {
				for range b.N {
					send(piece)
				}
				return nil
			})
			if guarded {
				m, _ = watchdogeino.New(watchdogeino.Config{}).WrapModel(wd.Context(), m, nil)
			}
			b.ReportAllocs()
			b.ResetTimer()
			in, err := m.Stream(wd.Context(), nil)
			require.NoError(b, err)
			defer in.Close()
			for err == nil {
				_, err = in.Recv()
			}
			require.Equal(b, io.EOF, err)
		})
	}
}
