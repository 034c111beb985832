package watchdogmcp_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogmcp"
)

// TestGuardsTogether checks that clients with guards of their own call tools of one name in one run at once.
func TestGuardsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Idle: time.Minute, Spend: watchdog.Spend{ToolCalls: 100}})
		var all sync.WaitGroup
		for range 4 {
			f := &fixture{tools: tools}
			f.connect(t)
			all.Go(func() {
				result, err := f.use(wd.Context(), "silent")
				assert.NoError(t, err)
				assert.False(t, result.IsError)
			})
		}
		all.Wait()
		assert.EqualValues(t, 4, wd.Usage()[0].Used)
	})
}

// TestHundred checks a hundred calls at once, of which half hang.
func TestHundred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{guard: watchdogmcp.Config{Tools: limits}, tools: tools}
		f.connect(t)
		wd := newRun(t, watchdog.Budget{Idle: time.Second, Spend: watchdog.Spend{ToolCalls: 100}})
		began, ended := time.Now(), make(chan bool, 100)
		for i := range 100 {
			go func() {
				result, err := f.use(wd.Context(), []string{"answer", "ignore"}[i%2])
				assert.NoError(t, err)
				ended <- strings.Contains(fmt.Sprint(result.Content[0].(*mcp.TextContent).Text), "may still be running")
			}()
		}
		n := 0
		for range 100 {
			if <-ended {
				n++
			}
		}
		assert.Equal(t, 50, n)
		assert.InDelta(t, time.Minute, time.Since(began), 1000)
		assert.Nil(t, wd.Stop())
	})
}

// TestEndedBefore checks that no call is made in a run that has ended, also if its context was cut off from that of the
// run.
func TestEndedBefore(t *testing.T) {
	for name, end := range map[string]func(*watchdog.Watchdog){
		"closed":   func(wd *watchdog.Watchdog) { _ = wd.Close() },
		"complete": func(wd *watchdog.Watchdog) { _ = wd.Complete() },
		"stopped":  func(wd *watchdog.Watchdog) { _, _ = wd.Cancel(watchdog.Cancellation{Reason: "operator_stop"}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fixture{tools: tools}
				f.connect(t)
				wd := newRun(t, watchdog.Budget{Idle: time.Minute})
				end(wd)
				for _, ctx := range []context.Context{wd.Context(), context.WithoutCancel(wd.Context())} {
					result, err := f.use(ctx, "answer")
					require.Error(t, err)
					assert.Nil(t, result)
				}
				assert.Zero(t, f.got("tools/call"))
			})
		})
	}
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}

// TestHuge checks an answer of 4 MiB.
func TestHuge(t *testing.T) {
	huge := strings.Repeat("0123456789abcdef", 1<<18)
	f := &fixture{tools: map[string]tool{
		"look": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return answer(huge), nil },
	}}
	f.connect(t)
	result, err := f.use(newRun(t, watchdog.Budget{}).Context(), "look")
	require.NoError(t, err)
	assert.Len(t, textOf(t, result), 4<<20)
}

// TestMany checks that calls by the SDK leave no memory; nor goroutines, as TestMain checks.
func TestMany(t *testing.T) {
	n := 0
	f := &fixture{tools: map[string]tool{
		"look": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			n++
			return answer(fmt.Sprint(n)), nil
		},
	}}
	f.connect(t)
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{ToolCalls: 1 << 40}})
	calls := func(count int) int64 {
		for range count {
			_, err := f.use(wd.Context(), "look")
			require.NoError(t, err)
		}
		f.mu.Lock()
		f.arrived = nil
		f.mu.Unlock()
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := calls(300)
	assert.Less(t, calls(2000)-before, int64(256<<10), "bytes after 2,000 calls")
	assert.Zero(t, f.shared.Followed())
}
