package watchdogmcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/locked"
	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/watchdogmcp"
)

// A cut is a transport whose connection a test can close without a word.
type cut struct {
	mcp.Transport
	conn mcp.Connection
}

func (c *cut) Connect(ctx context.Context) (conn mcp.Connection, err error) {
	c.conn, err = c.Transport.Connect(ctx)
	return c.conn, err
}

// TestGone checks that the end of a connection of the SDK names the server, in the middle of a call and later.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
		server.AddTool(&mcp.Tool{Name: "hang", InputSchema: map[string]any{"type": "object"}}, mcp.ToolHandler(tools["hang"]))
		client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
		watchdogmcp.New(watchdogmcp.Config{}).Attach(client)
		here, there := mcp.NewInMemoryTransports()
		far := &cut{Transport: there}
		_, err := server.Connect(t.Context(), far, nil)
		require.NoError(t, err)
		session, err := client.Connect(t.Context(), here, nil)
		require.NoError(t, err)
		wd := newRun(t, watchdog.Budget{})

		time.AfterFunc(time.Second, func() { _ = far.conn.Close() })
		result, err := session.CallTool(wd.Context(), &mcp.CallToolParams{Name: "hang"})
		assert.Nil(t, result)
		require.ErrorIs(t, err, watchdogmcp.ErrServerGone)
		require.ErrorIs(t, err, io.EOF, "what the SDK said")
		assert.Equal(t, `call the tool "hang" of server "files": the MCP server is gone: connect again: `+
			`calling "tools/call": EOF`, err.Error())
		assert.Nil(t, wd.Stop())

		_, err = session.CallTool(wd.Context(), &mcp.CallToolParams{Name: "hang"})
		require.ErrorIs(t, err, watchdogmcp.ErrServerGone)
		require.ErrorIs(t, err, mcp.ErrConnectionClosed)
		require.NoError(t, session.Close())
	})
}

// TestGoneNot checks that an error of another kind is not taken for the end of a server.
func TestGoneNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		_, err := answering(t, nil, boom).CallTool(t.Context(), &mcp.CallToolParams{Name: "any"})
		assert.Equal(t, boom, err)
	})
}

// repeat calls a tool again and again until the run ends, and returns in which calls something was added to its result.
func repeat(t *testing.T, f *fixture, wd *watchdog.Watchdog, tool string, vary int) (calls int, told []string) {
	t.Helper()
	for calls = 1; calls < 40; calls++ {
		result, err := f.session.CallTool(wd.Context(), &mcp.CallToolParams{
			Name: tool, Arguments: map[string]any{"n": calls * vary},
		})
		synctest.Wait()
		if err != nil {
			require.ErrorIs(t, err, watchdog.LoopDetected)
			return calls, told
		}
		for _, content := range result.Content[1:] {
			told = append(told, fmt.Sprintf("%d: %s", calls, content.(*mcp.TextContent).Text))
		}
	}
	return calls, told
}

// TestLoop checks that a model that repeats a call is told in its result, and that the run then ends.
func TestLoop(t *testing.T) {
	for name, c := range map[string]struct {
		tool  string
		class loop.Class
		vary  int // 1 for another input each time
		calls int
		told  bool
	}{
		"the same answer again":                {tool: "answer", class: loop.Look, calls: 6, told: true},
		"the same failed answer again":         {tool: "fail", class: loop.Change, calls: 6, told: true},
		"the same call that is ended":          {tool: "hang", class: loop.Look, calls: 6, told: true},
		"another answer each time is progress": {tool: "count", class: loop.Look, calls: 40},
		"another change each time is progress": {tool: "answer", class: loop.Change, vary: 1, calls: 40},
		"a wait is no loop":                    {tool: "answer", class: loop.Wait, calls: 40},
	} {
		bubble(t, name, func(t *testing.T) {
			count := 0
			f := &fixture{
				guard: watchdogmcp.Config{
					Tools: watchdogmcp.Limits{Limit: 2 * time.Second}, // one of minutes would look like a poll
					Class: func(string) loop.Class { return c.class },
				},
				tools: map[string]tool{
					"answer": tools["answer"], "fail": tools["fail"], "hang": tools["hang"],
					"count": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
						count++
						return answer(fmt.Sprint("found file_", count)), nil
					},
				},
			}
			f.connect(t)
			calls, told := repeat(t, f, newRun(t, watchdog.Budget{}), c.tool, c.vary)
			assert.Equal(t, c.calls, calls)
			if !c.told {
				assert.Empty(t, told)
				return
			}
			require.Len(t, told, 1)
			assert.Contains(t, told[0], "3: You repeat yourself")
		})
	}
}

// TestMessages checks that what the run asks of the model is at the end of the next result, once, whatever that is.
func TestMessages(t *testing.T) {
	for name, c := range map[string]struct {
		tool   string
		silent bool
		own    string
	}{
		"an answer":              {tool: "answer", own: "ok"},
		"a failed answer":        {tool: "fail", own: "no such file"},
		"a call that is ended":   {tool: "hang", own: "was ended"},
		"with structure":         {tool: "structured", own: `{"a":1}`},
		"not if the host's wish": {tool: "answer", silent: true, own: "ok"},
	} {
		bubble(t, name, func(t *testing.T) {
			f := &fixture{
				guard: watchdogmcp.Config{NoMessages: c.silent, Tools: watchdogmcp.Limits{Idle: time.Second}},
				tools: map[string]tool{
					"answer": tools["answer"], "fail": tools["fail"], "hang": tools["hang"], "refuse": tools["refuse"],
					"structured": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
						return &mcp.CallToolResult{
							Content: answer(`{"a":1}`).Content, StructuredContent: map[string]any{"a": 1},
						}, nil
					},
				},
			}
			f.connect(t)
			wd := newRun(t, watchdog.Budget{WallClock: time.Hour, Reserve: 10 * time.Minute})
			time.Sleep(51 * time.Minute)
			synctest.Wait()
			_, err := f.use(wd.Context(), "refuse")
			require.Error(t, err, "an error takes no message")
			result, err := f.use(wd.Context(), c.tool)
			require.NoError(t, err)
			assert.Contains(t, textOf(t, result), c.own)
			if c.silent {
				assert.Len(t, result.Content, 1)
				return
			}
			require.Len(t, result.Content, 2)
			assert.Contains(t, result.Content[1].(*mcp.TextContent).Text, "Call no more tools")
			if c.tool == "structured" {
				assert.Equal(t, map[string]any{"a": 1.0}, result.StructuredContent)
			}
			result, err = f.use(wd.Context(), c.tool)
			require.NoError(t, err)
			assert.Len(t, result.Content, 1)
		})
	}
}

// TestErrors checks that an IsError result counts as an error of its tool.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{tools: tools}
		f.connect(t)
		wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Errors: 2}})
		for _, tool := range []string{"fail", "answer", "fail", "fail"} {
			result, err := f.use(wd.Context(), tool)
			require.NoError(t, err)
			assert.Equal(t, tool == "fail", result.IsError)
		}
		assert.EqualValues(t, 2, wd.Usage()[0].Used)
	})
}

// TestSecrets checks that nothing that a model or a tool says is in an event or in a log.
func TestSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const canary = "canary-7f3a"
		log, store := &locked.Buffer{}, &watchdog.Memory{}
		logger := slog.New(slog.NewJSONHandler(log, nil))
		f := &fixture{
			guard: watchdogmcp.Config{
				Tools: watchdogmcp.Limits{Limit: time.Second}, Logger: logger,
				Class: func(string) loop.Class { return loop.Look },
			},
			tools: map[string]tool{
				"leak": func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return &mcp.CallToolResult{IsError: true, Content: answer(canary).Content}, nil
				},
				"hang": tools["hang"],
			},
		}
		session := f.connect(t)
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()},
			watchdog.Config{Store: store, Logger: logger})
		require.NoError(t, err)
		defer wd.Close()
		for range 7 {
			for _, tool := range []string{"leak", "hang"} {
				_, _ = session.CallTool(wd.Context(), &mcp.CallToolParams{
					Name: tool, Arguments: map[string]any{"key": canary}, Meta: mcp.Meta{"m": canary},
				})
			}
		}
		require.NotNil(t, wd.Stop(), "a loop")
		assert.NotContains(t, log.String(), canary)
		for _, run := range []string{"s-1", "s-1/hang-2", "s-1/hang-4"} {
			events, err := store.Read(t.Context(), watchdog.AggregateType, run)
			require.NoError(t, err)
			require.NotEmpty(t, events, run)
			for _, e := range events {
				assert.NotContains(t, string(e.Payload), canary)
			}
		}
	})
}
