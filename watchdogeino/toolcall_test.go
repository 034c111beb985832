package watchdogeino_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogeino"
)

// kinds are the tool "hammer" in each form that the SDK has. Those that stream send what they did before they hang.
func kinds(hang func(context.Context) error) map[string]tool.BaseTool {
	at := invokable{"hammer", func(ctx context.Context, _ string) (string, error) { return "", hang(ctx) }}
	in := streamable{"hammer", func(ctx context.Context, send func(string) bool) error {
		send("one nail")
		return hang(ctx)
	}}
	return map[string]tool.BaseTool{
		"invokable": at, "streamable": in, "enhanced": enhanced{at}, "enhanced streamable": enhancedStreamable{in},
	}
}

// TestHang checks that the model reads why its tool was ended, and that the agent goes on.
func TestHang(t *testing.T) {
	for _, hang := range []struct {
		name string
		work func(context.Context) error
		took time.Duration
		text string
	}{
		{"heeds its context", until, 10 * time.Minute, "Parts of it may have been done."},
		{"ignores its context", deaf, 10*time.Minute + 5*time.Second, "may still be running."},
	} {
		for kind, hammer := range kinds(hang.work) {
			eachWay(t, kind+" "+hang.name, func(t *testing.T, streaming bool) {
				wd := newRun(t, watchdog.Budget{Idle: time.Minute})
				m := scripted(calls("hammer"), says("I leave that"))
				began := time.Now()
				last, err := ask(wd.Context(), newAgent(t, watchdogeino.New(limits), m, hammer), streaming)
				require.NoError(t, err)
				assert.Equal(t, "I leave that", last)
				within(t, hang.took, time.Since(began))
				read := m.last(1)
				assert.Contains(t, read, `The call of the tool "hammer" was ended: it did not finish within its limit of 10m0s. `)
				assert.Contains(t, read, hang.text)
				assert.Equal(t, strings.Contains(kind, "streamable"), strings.HasPrefix(read, "one nail\n\nThe call"))
				assert.Nil(t, wd.Stop())
				time.Sleep(time.Hour) // what was abandoned returns
				assert.ErrorIs(t, context.Cause(wd.Context()), watchdog.IdleExceeded, "the hold is closed")
			})
		}
	}
}

// TestPanic checks that a panic of a tool is an error of the agent, as without a guard, in the turns of each kind.
func TestPanic(t *testing.T) {
	for kind, hammer := range kinds(func(context.Context) error { panic("the handle broke") }) {
		if strings.Contains(kind, "streamable") {
			continue // a tool that panics on a goroutine of its own ends the process, guarded or not
		}
		for _, tools := range [][]string{{"hammer"}, {"hammer", "hammer"}} {
			eachWay(t, kind, func(t *testing.T, streaming bool) {
				wd := newRun(t, watchdog.Budget{Idle: time.Minute, Spend: watchdog.Spend{Errors: 5}})
				agent := newAgent(t, watchdogeino.New(limits), scripted(calls(tools...), says("done")), hammer)
				_, err := ask(wd.Context(), agent, streaming)
				require.ErrorContains(t, err, "the handle broke")
				assert.Nil(t, wd.Stop())
				time.Sleep(time.Minute + 1)
				assert.NotNil(t, wd.Stop(), "the hold is closed")
			})
		}
	}
}

// newNode is a node of tools that are guarded without an agent.
func newNode(t *testing.T, guard *watchdogeino.Middleware, tools ...tool.BaseTool) *compose.ToolsNode {
	t.Helper()
	node, err := compose.NewToolNode(t.Context(), &compose.ToolsNodeConfig{
		Tools: tools, ToolCallMiddlewares: []compose.ToolMiddleware{guard.ToolMiddleware()},
	})
	require.NoError(t, err)
	return node
}

// use has a node make calls and returns their answers.
func use(ctx context.Context, node *compose.ToolsNode, asked *schema.Message, streaming bool) ([]*schema.Message, error) {
	if !streaming {
		return node.Invoke(ctx, asked)
	}
	stream, err := node.Stream(ctx, asked)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var all [][]*schema.Message
	for {
		piece, err := stream.Recv()
		if err != nil {
			break
		}
		all = append(all, piece)
	}
	return schema.ConcatMessageArray(all)
}

// TestToolsNode checks that tools are guarded without an agent.
func TestToolsNode(t *testing.T) {
	for kind, hammer := range kinds(until) {
		eachWay(t, kind, func(t *testing.T, streaming bool) {
			wd := newRun(t, watchdog.Budget{Idle: time.Minute})
			guard := watchdogeino.New(limits)
			m, err := guard.Model(scripted(calls("hammer"))).WithTools(nil)
			require.NoError(t, err)
			asked, err := m.Generate(wd.Context(), nil)
			require.NoError(t, err)
			began := time.Now()
			answers, err := use(wd.Context(), newNode(t, guard, hammer), asked, streaming)
			require.NoError(t, err)
			within(t, 10*time.Minute, time.Since(began))
			require.Len(t, answers, 1)
			assert.Contains(t, textOf(answers[0]), `"hammer" was ended`)
			assert.Equal(t, strings.Contains(kind, "streamable"), strings.HasPrefix(textOf(answers[0]), "one nail\n\n"))
			assert.Nil(t, wd.Stop())
		})
	}
}

// TestToolsNodeFails checks that the calls beside one that fails leave nothing, though nobody reads or closes them.
func TestToolsNodeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Idle: time.Minute})
		ctx, cancel := context.WithCancel(wd.Context())
		fails := invokable{"fails", func(context.Context, string) (string, error) { return "", assert.AnError }}
		var asked *schema.Message
		require.NoError(t, calls("hammer", "fails")(ctx, func(m *schema.Message) { asked = m }))
		_, err := newNode(t, watchdogeino.New(limits), kinds(until)["streamable"], fails).Stream(ctx, asked)
		require.ErrorIs(t, err, assert.AnError)
		cancel()
		synctest.Wait() // the bubble fails if a goroutine is left
	})
}

// TestGraphLoop checks that a model without an agent is told as well that it gets nowhere.
func TestGraphLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{})
		guard, inner := watchdogeino.New(limits), scripted(calls("look"))
		look := invokable{"look", func(context.Context, string) (string, error) { return "nothing", nil }}
		m, node := guard.Model(inner), newNode(t, guard, look)
		var err error
		for range 20 {
			asked, failed := m.Generate(wd.Context(), nil)
			if err = failed; err != nil {
				break
			}
			_, err = node.Invoke(wd.Context(), asked)
			require.NoError(t, err)
		}
		require.ErrorIs(t, err, watchdog.LoopDetected)
		assert.Equal(t, 5, inner.calls())
		assert.Contains(t, inner.last(3), "You repeat yourself")
	})
}
