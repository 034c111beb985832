package watchdogmcp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	for _, c := range []struct {
		tool    string
		took    time.Duration
		text    string
		isError bool
		told    int // cancellations that the server got
	}{
		{tool: "answer", text: "ok"},
		{tool: "fail", text: "no such file", isError: true},
		{
			tool: "hang", took: time.Minute, isError: true, told: 1,
			text: `The call of the tool "hang" was ended: it gave no sign of life for its limit of 1m0s. ` +
				"It was told to stop, but may still be running. Look at what is there before you call it again, " +
				"and then with less to do or in another way.",
		},
		{
			tool: "ignore", took: time.Minute, isError: true, told: 1,
			text: `The call of the tool "ignore" was ended: it gave no sign of life for its limit of 1m0s. ` +
				"It was told to stop, but may still be running. Look at what is there before you call it again, " +
				"and then with less to do or in another way.",
		},
		{
			tool: "stall", took: 2*50*time.Second + time.Minute, isError: true, told: 1,
			text: `The call of the tool "stall" was ended: it gave no sign of life for its limit of 1m0s. ` +
				"It was told to stop, but may still be running. Look at what is there before you call it again, " +
				"and then with less to do or in another way.",
		},
		{
			tool: "work", took: 10 * time.Minute, isError: true, told: 1,
			text: `The call of the tool "work" was ended: it did not finish within its limit of 10m0s. ` +
				"It was told to stop, but may still be running. Look at what is there before you call it again, " +
				"and then with less to do or in another way.",
		},
	} {
		for _, protocol := range protocols {
			t.Run(c.tool+" in "+protocol, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := &fixture{guard: watchdogmcp.Config{Tools: limits}, protocol: protocol, tools: tools}
					f.connect(t)
					wd := newRun(t, watchdog.Budget{Idle: time.Second})
					began := time.Now()
					result, err := f.use(wd.Context(), c.tool)
					require.NoError(t, err)
					assert.InDelta(t, c.took, time.Since(began), 2)
					assert.Equal(t, c.text, textOf(t, result))
					assert.Equal(t, c.isError, result.IsError)
					synctest.Wait()
					assert.Equal(t, c.told, f.got("notifications/cancelled"))
					assert.Nil(t, wd.Stop(), "the run goes on")
					time.Sleep(time.Second + 10*time.Millisecond)
					assert.NotNil(t, wd.Stop(), "the hold is closed: the run's own idle counts again")
				})
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

// TestCallLives checks that a silent tool lives as long as its limit, whatever the idle of the run.
func TestCallLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{tools: tools}
		f.connect(t)
		wd := newRun(t, watchdog.Budget{Idle: time.Minute})
		result, err := f.use(wd.Context(), "silent")
		require.NoError(t, err)
		assert.Equal(t, "done", textOf(t, result))
		assert.Nil(t, wd.Stop())
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

func TestCallWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{guard: watchdogmcp.Config{Tools: limits}, tools: tools}
		f.connect(t)
		began := time.Now()
		result, err := f.use(t.Context(), "hang")
		require.NoError(t, err)
		assert.True(t, result.IsError)
		assert.Contains(t, textOf(t, result), "limit of 10m0s")
		assert.InDelta(t, 10*time.Minute, time.Since(began), 2)
		result, err = f.use(t.Context(), "answer")
		require.NoError(t, err)
		assert.Equal(t, "ok", textOf(t, result))
	})
}

func TestCallRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{tools: tools}
		f.connect(t)
		wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tools: map[string]int64{"answer": 1}}})
		_, err := f.use(wd.Context(), "answer")
		require.NoError(t, err)
		result, err := f.use(wd.Context(), "answer")
		require.NoError(t, err)
		assert.True(t, result.IsError)
		assert.Contains(t, textOf(t, result), `The call of the tool "answer" was not made`)
		assert.Equal(t, 1, f.got("tools/call"))
	})
}

// TestCallLate checks that the answer of a tool that was given up reaches nobody, not even the next call.
func TestCallLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{guard: watchdogmcp.Config{Tools: limits}, tools: tools}
		f.connect(t)
		wd := newRun(t, watchdog.Budget{})
		result, err := f.use(wd.Context(), "ignore")
		require.NoError(t, err)
		text := textOf(t, result)
		for range 150 { // the late answer comes meanwhile
			time.Sleep(time.Minute)
			next, err := f.use(wd.Context(), "answer")
			require.NoError(t, err)
			require.False(t, next.IsError)
		}
		assert.Equal(t, text, textOf(t, result))
	})
}

func TestCallParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{guard: watchdogmcp.Config{Tools: limits}, tools: tools}
		f.connect(t)
		wd := newRun(t, watchdog.Budget{Idle: time.Second, Spend: watchdog.Spend{ToolCalls: 100}})
		began, results := time.Now(), make(chan *mcp.CallToolResult)
		for i := range 40 {
			go func() {
				result, err := f.use(wd.Context(), []string{"answer", "hang", "fail", "ignore"}[i%4])
				assert.NoError(t, err)
				results <- result
			}()
		}
		failed := 0
		for range 40 {
			if (<-results).IsError {
				failed++
			}
		}
		assert.Equal(t, 30, failed)
		assert.InDelta(t, time.Minute, time.Since(began), 100)
		assert.EqualValues(t, 40, wd.Usage()[0].Used)
		synctest.Wait()
		assert.Equal(t, 20, f.got("notifications/cancelled"))
		assert.Nil(t, wd.Stop())
	})
}

// TestCallSubAgents checks that the calls of sub-agents, which are layers of a run, are theirs and share its limits.
func TestCallSubAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{guard: watchdogmcp.Config{Tools: limits}, tools: tools}
		f.connect(t)
		wd := newRun(t, watchdog.Budget{Idle: time.Second, Spend: watchdog.Spend{ToolCalls: 10}})
		type reply struct {
			result *mcp.CallToolResult
			err    error
		}
		replies := make(chan reply)
		for i := range 4 {
			sub, err := wd.Layer(fmt.Sprint("sub-", i), watchdog.Budget{Idle: time.Second})
			require.NoError(t, err)
			go func() {
				defer sub.Close()
				for range 3 {
					result, err := f.use(sub.Context(), []string{"answer", "hang"}[i%2])
					replies <- reply{result, err}
				}
			}()
		}
		refused := 0
		for range 12 {
			r := <-replies
			switch {
			case r.err != nil: // the second refusal ends the run, and with it what is under way
				require.ErrorIs(t, r.err, watchdog.ToolCallsExceeded)
				refused++
			case strings.Contains(textOf(t, r.result), "was not made"):
				refused++
			}
		}
		assert.GreaterOrEqual(t, refused, 2)
		assert.LessOrEqual(t, f.got("tools/call"), 10)
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

// TestCallResumed checks that a call in a run that was killed within a call, and taken up again, is not taken for that
// one.
func TestCallResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &watchdog.Memory{}
		attach := func() *watchdog.Watchdog {
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now().Add(-time.Hour)},
				watchdog.Config{Store: store, Budget: watchdog.Budget{WallClock: 8 * time.Hour, Idle: time.Second}})
			require.NoError(t, err)
			t.Cleanup(func() { _ = wd.Close() })
			return wd
		}
		killed := &fixture{guard: watchdogmcp.Config{Tools: limits}, tools: tools}
		killed.connect(t)
		wd := attach()
		result, err := killed.use(wd.Context(), "hang")
		require.NoError(t, err)
		require.True(t, result.IsError, "its cancel is in the store")
		ctx, kill := context.WithCancel(wd.Context())
		go func() { _, _ = killed.use(ctx, "hang") }()
		time.Sleep(time.Second)
		kill()

		f := &fixture{guard: watchdogmcp.Config{Tools: limits}, tools: tools}
		f.connect(t)
		again := attach()
		result, err = f.use(again.Context(), "hang")
		require.NoError(t, err)
		assert.Contains(t, textOf(t, result), "gave no sign of life for its limit of 1m0s")
		result, err = f.use(again.Context(), "answer")
		require.NoError(t, err)
		assert.Equal(t, "ok", textOf(t, result))
		events, err := store.Read(t.Context(), watchdog.AggregateType, "s-1/hang-1")
		require.NoError(t, err)
		assert.Len(t, events, 2, "each window of the layer has a cancel of its own")
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
