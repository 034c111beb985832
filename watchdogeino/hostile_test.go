package watchdogeino_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogeino"
)

// TestSubAgentsTogether checks that agents that are tools, and work at the same time, share the caps of the run: no call
// too many is made, by none of them.
func TestSubAgentsTogether(t *testing.T) {
	eachWay(t, func(t *testing.T, streaming bool) {
		wd := newRun(t, watchdog.Budget{
			Spend:   watchdog.Spend{ToolCalls: 14},
			Ladders: watchdog.Ladders{ToolCalls: []watchdog.DirectiveKind{watchdog.DirectiveWait}},
		})
		var made atomic.Int64
		work := invokable{"work", func(context.Context, string) (string, error) {
			time.Sleep(time.Second)
			return fmt.Sprint("worked ", made.Add(1)), nil
		}}
		guard := watchdogeino.New(limits)
		var subs []tool.BaseTool
		var names []string
		for i := range 4 {
			name := fmt.Sprint("helper-", i)
			agent, err := adk.NewChatModelAgent(t.Context(), &adk.ChatModelAgentConfig{
				Name: name, Description: "helps", MaxIterations: 50,
				Model:       scripted(calls("work"), calls("work"), calls("work"), calls("work"), says("helped")),
				Handlers:    []adk.ChatModelAgentMiddleware{watchdogeino.New(limits)}, // a guard of its own
				ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{Tools: []tool.BaseTool{work}}},
			})
			require.NoError(t, err)
			subs, names = append(subs, adk.NewAgentTool(t.Context(), agent)), append(names, name)
		}
		m := scripted(calls(names...), says("done"))
		last, err := ask(wd.Context(), newAgent(t, guard, m, subs...), streaming)
		require.NoError(t, err)
		assert.Equal(t, "done", last)
		for _, answer := range m.sent(1)[2:] {
			assert.Equal(t, "helped", textOf(answer))
		}
		assert.EqualValues(t, 14-4, made.Load(), "the four helpers are calls as well")
		assert.EqualValues(t, 14, wd.Usage()[0].Used)
		assert.Zero(t, wd.Usage()[0].Admitted)
	})
}

// TestHundred checks a hundred calls at once, of which half hang.
func TestHundred(t *testing.T) {
	eachWay(t, func(t *testing.T, streaming bool) {
		wd := newRun(t, watchdog.Budget{Idle: time.Minute, Spend: watchdog.Spend{ToolCalls: 100}})
		var names []string
		for range 50 {
			names = append(names, "hammer", "look")
		}
		look := invokable{"look", func(context.Context, string) (string, error) { return "nothing", nil }}
		m := scripted(calls(names...), says("done"))
		began := time.Now()
		_, err := ask(wd.Context(), newAgent(t, watchdogeino.New(limits), m, kinds(deaf)["streamable"], look), streaming)
		require.NoError(t, err)
		within(t, 10*time.Minute+5*time.Second, time.Since(began))
		ended := 0
		for _, answer := range m.sent(1) {
			if strings.Contains(textOf(answer), "may still be running") {
				ended++
			}
		}
		assert.Equal(t, 50, ended)
		assert.EqualValues(t, 100, wd.Usage()[0].Used)
		time.Sleep(2 * time.Hour)
	})
}

// TestModelPanicsInAgent checks that a panic of a model is an error of its agent, before and within its answer.
func TestModelPanicsInAgent(t *testing.T) {
	for name, open := range map[string]func() *schema.StreamReader[*schema.Message]{
		"before": func() *schema.StreamReader[*schema.Message] { panic("the model broke") },
		"within": func() *schema.StreamReader[*schema.Message] {
			return schema.StreamReaderWithConvert(schema.StreamReaderFromArray([]int{1}), func(int) (*schema.Message, error) {
				panic("the model broke")
			})
		},
		"a stream that is none": func() *schema.StreamReader[*schema.Message] { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, streaming bool) {
				wd := newRun(t, watchdog.Budget{Idle: time.Minute, Spend: watchdog.Spend{Requests: 9}})
				_, err := ask(wd.Context(), newAgent(t, watchdogeino.New(limits), broken{open}), streaming)
				require.ErrorContains(t, err, "panic")
				assert.Zero(t, wd.Usage()[0].Admitted)
				assert.Nil(t, wd.Stop())
			})
		})
	}
}

// A broken model streams what it is told.
type broken struct {
	open func() *schema.StreamReader[*schema.Message]
}

func (m broken) Generate(context.Context, []*schema.Message, ...model.Option) (*schema.Message, error) {
	return m.open().Recv()
}

func (m broken) Stream(
	context.Context, []*schema.Message, ...model.Option,
) (*schema.StreamReader[*schema.Message], error) {
	return m.open(), nil
}

// TestNothing checks that a tool that answers nothing is to the agent what it is without a guard. It is not in a bubble:
// the SDK leaves some of these streams to a finalizer, which is outside of it.
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
				bare, failed := ask(t.Context(), newBare(t, scripted(calls("hammer"), says("done")), nothing), streaming)
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

// newBare is an agent whose calls are not guarded.
func newBare(t *testing.T, m model.BaseChatModel, tools ...tool.BaseTool) *adk.ChatModelAgent {
	t.Helper()
	agent, err := adk.NewChatModelAgent(t.Context(), &adk.ChatModelAgentConfig{
		Name: "helper", Description: "helps", Model: m, MaxIterations: 50,
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{Tools: tools}},
	})
	require.NoError(t, err)
	return agent
}

// TestEndedBefore checks that an agent in a run that has ended makes no call, also if its context was cut off from that
// of the run.
func TestEndedBefore(t *testing.T) {
	for name, end := range map[string]func(*watchdog.Watchdog){
		"closed":   func(wd *watchdog.Watchdog) { _ = wd.Close() },
		"complete": func(wd *watchdog.Watchdog) { _ = wd.Complete() },
		"stopped":  func(wd *watchdog.Watchdog) { _, _ = wd.Cancel(watchdog.Cancellation{Reason: "operator_stop"}) },
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, streaming bool) {
				wd := newRun(t, watchdog.Budget{Idle: time.Minute})
				end(wd)
				m := scripted(calls("look"), says("done"))
				look := invokable{"look", func(context.Context, string) (string, error) { return "nothing", nil }}
				for _, ctx := range []context.Context{wd.Context(), context.WithoutCancel(wd.Context())} {
					_, err := ask(ctx, newAgent(t, watchdogeino.New(limits), m, look), streaming)
					require.Error(t, err)
					assert.Zero(t, m.calls())
				}
			})
		})
	}
}

// TestHuge checks answers of 4 MiB.
func TestHuge(t *testing.T) {
	eachWay(t, func(t *testing.T, streaming bool) {
		wd := newRun(t, watchdog.Budget{Idle: time.Minute})
		huge := strings.Repeat("0123456789abcdef", 1<<18)
		m := scripted(calls("look", "listen"), says("done"))
		look := invokable{"look", func(context.Context, string) (string, error) { return huge, nil }}
		listen := streamable{"listen", func(_ context.Context, send func(string) bool) error {
			for range 256 {
				send(huge[:16<<10])
			}
			return nil
		}}
		last, err := ask(wd.Context(), newAgent(t, watchdogeino.New(limits), m, look, listen), streaming)
		require.NoError(t, err)
		assert.Equal(t, "done", last)
		assert.Len(t, textOf(m.sent(1)[2]), 4<<20)
		assert.Len(t, textOf(m.sent(1)[3]), 256*16<<10)
	})
}

// TestMany checks that calls by the SDK's runner leave no memory; nor goroutines, as TestMain checks.
func TestMany(t *testing.T) {
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{ToolCalls: 1 << 40}})
	guard := watchdogeino.New(limits)
	var found atomic.Int64
	look := invokable{"look", func(context.Context, string) (string, error) { return fmt.Sprint(found.Add(1)), nil }}
	listen := streamable{"listen", func(_ context.Context, send func(string) bool) error {
		send(fmt.Sprint(found.Add(1)))
		return nil
	}}
	agents := func(n int) int64 {
		for range n {
			m := scripted(calls(slices.Repeat([]string{"look", "listen"}, 10)...), says("done"))
			_, err := ask(wd.Context(), newAgent(t, guard, m, look, listen), true)
			require.NoError(t, err)
		}
		var m runtime.MemStats
		for range 3 { // finalizers of the SDK, and what they hold
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := agents(20)
	assert.Less(t, agents(100)-before, int64(512<<10), "bytes after 2,000 calls")
}
