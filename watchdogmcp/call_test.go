package watchdogmcp_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogmcp"
)

var limits = watchdogmcp.Limits{Limit: 10 * time.Minute, Idle: time.Minute, Grace: 5 * time.Second}

// tools are those of most tests, by name.
var tools = map[string]tool{
	"answer": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return answer("ok"), nil },
	"fail": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{IsError: true, Content: answer("no such file").Content}, nil
	},
	"refuse": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "out of order"}
	},
	"hang": func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	},
	"ignore": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		time.Sleep(2 * time.Hour)
		return answer("much too late"), nil
	},
	"work": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for n := range 100 {
			time.Sleep(30 * time.Second)
			if err := progress(ctx, req, n); err != nil {
				return nil, err
			}
		}
		return answer("done"), nil
	},
	"stall": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for n := range 3 {
			if err := progress(ctx, req, n); err != nil {
				return nil, err
			}
			time.Sleep(50 * time.Second)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	},
	"silent": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		time.Sleep(30 * time.Minute)
		return answer("done"), nil
	},
}

func progress(ctx context.Context, req *mcp.CallToolRequest, n int) error {
	return req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: req.Params.GetProgressToken(), Progress: float64(n + 1),
	})
}

// workUntil tells its progress until another call was ended by its silence, and for a while longer.
func workUntil(ctx context.Context, req *mcp.CallToolRequest, ended <-chan struct{}) (*mcp.CallToolResult, error) {
	const more = 10
	for n, after := 0, 0; after < more; n++ {
		time.Sleep(50 * time.Millisecond)
		if err := progress(ctx, req, n); err != nil {
			return nil, err
		}
		select {
		case <-ended:
			after++
		default:
		}
	}
	return answer("done"), nil
}

func TestCall(t *testing.T) {
	const silent, slow = "it gave no sign of life for its limit of 1m0s", "it did not finish within its limit of 10m0s"
	for _, c := range []struct {
		tool  string
		took  time.Duration
		text  string
		ended string // why, if it was
	}{
		{tool: "answer", text: "ok"},
		{tool: "fail", text: "no such file"},
		{tool: "hang", took: time.Minute, ended: silent},
		{tool: "ignore", took: time.Minute, ended: silent},
		{tool: "stall", took: 2*50*time.Second + time.Minute, ended: silent},
		{tool: "work", took: 10 * time.Minute, ended: slow},
	} {
		told := 0 // cancellations that the server got
		if c.ended != "" {
			told = 1
			c.text = `"` + c.tool + `" was ended: ` + c.ended + ". It was told to stop, but may still be running."
		}
		for _, protocol := range protocols {
			bubble(t, c.tool+" in "+protocol, func(t *testing.T) {
				f := &fixture{guard: watchdogmcp.Config{Tools: limits}, protocol: protocol, tools: tools}
				f.connect(t)
				wd := newRun(t, watchdog.Budget{Idle: time.Second})
				began := time.Now()
				result, err := f.use(wd.Context(), c.tool)
				require.NoError(t, err)
				assert.InDelta(t, c.took, time.Since(began), 2)
				assert.Contains(t, textOf(t, result), c.text)
				assert.Equal(t, c.tool != "answer", result.IsError)
				synctest.Wait()
				assert.Equal(t, told, f.got("notifications/cancelled"))
				assert.Nil(t, wd.Stop(), "the run goes on")
				time.Sleep(time.Second + 10*time.Millisecond)
				assert.NotNil(t, wd.Stop(), "the hold is closed: the run's own idle counts again")
			})
		}
	}
}

// TestCallError checks that an error of the protocol is the SDK's.
func TestCallError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{tools: tools}
		f.connect(t)
		for _, ctx := range []context.Context{t.Context(), newRun(t, watchdog.Budget{}).Context()} {
			result, err := f.use(ctx, "refuse")
			assert.Nil(t, result)
			var wire *jsonrpc.Error
			require.ErrorAs(t, err, &wire)
			assert.Equal(t, `calling "tools/call": out of order`, err.Error())
		}
	})
}

func TestCallCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{tools: tools}
		f.connect(t)
		wd := newRun(t, watchdog.Budget{})
		left := errors.New("the person has left")
		ctx, cancel := context.WithCancelCause(wd.Context())
		time.AfterFunc(time.Second, func() { cancel(left) })
		result, err := f.use(ctx, "hang")
		assert.Nil(t, result)
		require.ErrorIs(t, err, left)
		require.ErrorIs(t, err, context.Canceled, "as without a guard")
		synctest.Wait()
		assert.Equal(t, 1, f.got("notifications/cancelled"))
		assert.Nil(t, wd.Stop())

		wd = newRun(t, watchdog.Budget{WallClock: time.Minute})
		_, err = f.use(wd.Context(), "hang")
		require.ErrorIs(t, err, watchdog.WallClockExceeded)
		_, err = f.use(wd.Context(), "answer")
		require.ErrorIs(t, err, watchdog.WallClockExceeded)
		assert.Equal(t, 2, f.got("tools/call"), "a call in a run that has ended is not made")
	})
}

func TestCallLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{tools: tools, guard: watchdogmcp.Config{
			Tools: limits,
			Tool:  map[string]watchdogmcp.Limits{"files.hang": {Limit: 2 * time.Second}},
		}}
		f.guard.Name = func(_ *mcp.ClientSession, tool string) string { return "files." + tool }
		f.connect(t)
		wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tools: map[string]int64{"files.answer": 1}}})
		result, err := f.use(wd.Context(), "hang")
		require.NoError(t, err)
		assert.Contains(t, textOf(t, result), `the tool "files.hang" was ended: it did not finish within its limit of 2s`)
		result, err = f.use(wd.Context(), "answer")
		require.NoError(t, err)
		assert.False(t, result.IsError)
		result, err = f.use(wd.Context(), "answer")
		require.NoError(t, err)
		assert.Contains(t, textOf(t, result), `the tool "files.answer" was not made`)
	})
}

// TestOtherMethods checks that nothing but calls of tools is guarded.
func TestOtherMethods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{guard: watchdogmcp.Config{Tools: watchdogmcp.Limits{Limit: 1}}, tools: tools}
		session := f.connect(t)
		wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{ToolCalls: 1}})
		all, err := session.ListTools(wd.Context(), nil)
		require.NoError(t, err)
		assert.Len(t, all.Tools, len(tools))
		_, err = session.ListPrompts(wd.Context(), nil)
		require.NoError(t, err)
		assert.Zero(t, wd.Usage()[0].Used)
	})
}

// TestOtherResults checks results that a middleware inside the guard makes of a call: none, and those with nothing in
// them.
func TestOtherResults(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		result mcp.Result
		err    error
	}{
		"nothing":               {result: (*mcp.CallToolResult)(nil)},
		"an empty result":       {result: &mcp.CallToolResult{}},
		"an empty failure":      {result: &mcp.CallToolResult{IsError: true}},
		"a content of none":     {result: &mcp.CallToolResult{Content: []mcp.Content{nil}}},
		"a result and an error": {result: &mcp.CallToolResult{}, err: boom},
	} {
		bubble(t, name, func(t *testing.T) {
			client := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil)
			client.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
					if method == "tools/call" {
						return c.result, c.err
					}
					return next(ctx, method, req)
				}
			})
			watchdogmcp.New(watchdogmcp.Config{}).Attach(client)
			here, there := mcp.NewInMemoryTransports()
			served, err := mcp.NewServer(&mcp.Implementation{Name: "files"}, nil).Connect(t.Context(), there, nil)
			require.NoError(t, err)
			session, err := client.Connect(t.Context(), here, nil)
			require.NoError(t, err)
			wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{ToolCalls: 9}})
			result, err := session.CallTool(wd.Context(), &mcp.CallToolParams{Name: "any"})
			assert.Equal(t, c.err, err)
			if c.err == nil {
				assert.Equal(t, c.result, result)
			}
			assert.Zero(t, wd.Usage()[0].Admitted)
			assert.EqualValues(t, 1, wd.Usage()[0].Used)
			require.NoError(t, session.Close())
			_ = served.Wait()
		})
	}
}
