package watchdogmcp_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogmcp"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		serve()
		return
	}
	goleak.VerifyTestMain(m)
}

// protocols are those that tests are run with: the last one that begins a session, and the first one without.
var protocols = []string{"2025-11-25", "2026-07-28"}

// A tool is what a server does for a call.
type tool func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error)

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

func answer(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// textOf returns the texts of a result, one on each line.
func textOf(t *testing.T, result *mcp.CallToolResult) (text string) {
	t.Helper()
	require.NotNil(t, result)
	for _, content := range result.Content {
		text += content.(*mcp.TextContent).Text + "\n"
	}
	return text
}

// A fixture is a server in this process, and a guarded client.
type fixture struct {
	guard    *watchdogmcp.Guard
	client   mcp.ClientOptions
	protocol string

	mu      sync.Mutex
	arrived []string // the methods of what the server got
	session *mcp.ClientSession
}

var limits = watchdogmcp.Config{
	Tools: watchdogmcp.Limits{Limit: 10 * time.Minute, Idle: time.Minute, Grace: 5 * time.Second},
	Tool:  map[string]watchdogmcp.Limits{"silent": {Limit: time.Hour, Idle: watchdog.NoLimit}},
}

// connect connects both until the end of the test.
func (f *fixture) connect(t *testing.T, more map[string]tool) *fixture {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
	for _, all := range []map[string]tool{tools, more} {
		for name, do := range all {
			server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, mcp.ToolHandler(do))
		}
	}
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			f.mu.Lock()
			f.arrived = append(f.arrived, method)
			f.mu.Unlock()
			return next(ctx, method, req)
		}
	})
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &f.client)
	if f.guard == nil {
		f.guard = watchdogmcp.New(limits)
	}
	f.guard.Attach(client)
	here, there := mcp.NewInMemoryTransports()
	served, err := server.Connect(t.Context(), there, nil)
	require.NoError(t, err)
	f.session, err = client.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: f.protocol})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, f.session.Close())
		_ = served.Wait()
	})
	return f
}

// got returns how many messages with a method the server got.
func (f *fixture) got(method string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.arrived {
		if m == method {
			n++
		}
	}
	return n
}

// use calls a tool.
func (f *fixture) use(ctx context.Context, tool string) (*mcp.CallToolResult, error) {
	return f.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"q": "x"}})
}

// newRun begins a run that is kept in memory and closed with the test.
func newRun(tb testing.TB, budget watchdog.Budget) *watchdog.Watchdog {
	tb.Helper()
	wd, err := watchdog.New(tb.Context(), watchdog.Run{}, watchdog.Config{
		Budget: budget, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, wd.Close()) })
	return wd
}

// bubbles runs a test with fake time, with each protocol.
func bubbles(t *testing.T, name string, test func(t *testing.T, protocol string)) {
	t.Helper()
	for _, protocol := range protocols {
		t.Run(name+" "+protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, protocol) })
		})
	}
}

// TestCall checks that a call that hangs is answered for, that the server is told, and that the run goes on.
func TestCall(t *testing.T) {
	const silent, slow = "it gave no sign of life for its limit of 1m0s", "it did not finish within its limit of 10m0s"
	for name, c := range map[string]struct {
		took  time.Duration
		text  string
		ended string // why, if it was
	}{
		"answer": {text: "ok"},
		"fail":   {text: "no such file"},
		"silent": {took: 30 * time.Minute, text: "done"},
		"hang":   {took: time.Minute, ended: silent},
		"ignore": {took: time.Minute, ended: silent},
		"stall":  {took: 2*50*time.Second + time.Minute, ended: silent},
		"work":   {took: 10 * time.Minute, ended: slow},
	} {
		bubbles(t, name, func(t *testing.T, protocol string) {
			f := (&fixture{protocol: protocol}).connect(t, nil)
			wd := newRun(t, watchdog.Budget{Idle: time.Second})
			told, text := 0, c.text
			if c.ended != "" {
				told = 1
				text = `"` + name + `" was ended: ` + c.ended + ". It was told to stop, but may still be running."
			}
			began := time.Now()
			result, err := f.use(wd.Context(), name)
			require.NoError(t, err)
			assert.InDelta(t, c.took, time.Since(began), 2)
			assert.Contains(t, textOf(t, result), text)
			assert.Equal(t, c.ended != "" || name == "fail", result.IsError)
			synctest.Wait()
			assert.Equal(t, told, f.got("notifications/cancelled"))
			assert.Nil(t, wd.Stop(), "the run goes on")
			time.Sleep(time.Second + 10*time.Millisecond)
			assert.NotNil(t, wd.Stop(), "the hold is closed: the run's own idle counts again")
		})
	}
}

// TestParallel checks that calls at once have a limit each, also those of one tool.
func TestParallel(t *testing.T) {
	bubbles(t, "", func(t *testing.T, protocol string) {
		hangs := make(chan bool, 1)
		hangs <- true
		f := (&fixture{protocol: protocol}).connect(t, map[string]tool{
			"once": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				select {
				case <-hangs:
					return tools["hang"](ctx, req)
				default:
					return answer("ok"), nil
				}
			},
		})
		wd := newRun(t, watchdog.Budget{Idle: time.Second})
		ended := make(chan bool, 4)
		var all sync.WaitGroup
		for _, name := range []string{"once", "once", "once", "work"} {
			all.Go(func() {
				result, err := f.use(wd.Context(), name)
				assert.NoError(t, err)
				ended <- name == "once" && result.IsError
			})
		}
		all.Wait()
		close(ended)
		n := 0
		for one := range ended {
			if one {
				n++
			}
		}
		assert.Equal(t, 1, n)
		assert.Nil(t, wd.Stop())
	})
}

// TestErrors checks that an error of the protocol is the SDK's, and that the caller's own cancel is one of the call.
func TestErrors(t *testing.T) {
	bubbles(t, "", func(t *testing.T, protocol string) {
		f := (&fixture{protocol: protocol}).connect(t, nil)
		for _, ctx := range []context.Context{t.Context(), newRun(t, watchdog.Budget{}).Context()} {
			result, err := f.use(ctx, "refuse")
			assert.Nil(t, result)
			require.ErrorAs(t, err, new(*jsonrpc.Error))
			assert.Equal(t, `calling "tools/call": out of order`, err.Error())
		}
		wd, left := newRun(t, watchdog.Budget{}), errors.New("the person has left")
		ctx, cancel := context.WithCancelCause(wd.Context())
		time.AfterFunc(time.Second, func() { cancel(left) })
		result, err := f.use(ctx, "hang")
		assert.Nil(t, result)
		require.ErrorIs(t, err, left)
		require.ErrorIs(t, err, context.Canceled, "as without a guard")
		synctest.Wait()
		assert.Equal(t, 1, f.got("notifications/cancelled"))
		assert.Nil(t, wd.Stop())
	})
}

// TestProgress checks that progress of a call is a sign of life of it, with whatever token, and who sees it.
func TestProgress(t *testing.T) {
	for name, c := range map[string]struct {
		token any
		shown bool
	}{
		"no token": {nil, false}, "a text": {"mine", true}, "a number": {1_000_000_007, true},
	} {
		bubbles(t, name, func(t *testing.T, protocol string) {
			var shown int
			f := (&fixture{protocol: protocol, client: mcp.ClientOptions{
				ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { shown++ },
			}}).connect(t, nil)
			params := &mcp.CallToolParams{Name: "stall"}
			if c.token != nil {
				params.Meta = mcp.Meta{"progressToken": c.token}
			}
			began := time.Now()
			result, err := f.session.CallTool(newRun(t, watchdog.Budget{}).Context(), params)
			require.NoError(t, err)
			assert.True(t, result.IsError)
			assert.InDelta(t, 2*50*time.Second+time.Minute, time.Since(began), 2)
			synctest.Wait()
			assert.Equal(t, c.shown, shown == 3)
			assert.Equal(t, c.token, params.GetProgressToken(), "the caller's parameters are not changed")
		})
	}
}

// TestElicitation checks that a person who is asked in the middle of a call takes no time of the run or of the call.
func TestElicitation(t *testing.T) {
	form := &mcp.ElicitParams{Message: "may I?", RequestedSchema: map[string]any{"type": "object"}}
	asks := map[string]tool{"ask": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.Session.InitializeParams().ProtocolVersion < protocols[1] {
			said, err := req.Session.Elicit(ctx, form)
			if err != nil {
				return nil, err
			}
			return answer(said.Action), nil
		}
		if said, ok := req.Params.InputResponses["q"].(*mcp.ElicitResult); ok {
			return answer(said.Action), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": form}}, nil
	}}
	for name, c := range map[string]struct {
		approval time.Duration
		text     string
		code     error
		took     time.Duration
	}{
		"answered": {0, "accept", nil, 10 * time.Hour}, "not in time": {time.Hour, "", watchdog.HoldExceeded, time.Hour},
		"not held": {watchdog.None, "no sign of life", nil, time.Minute},
	} {
		bubbles(t, name, func(t *testing.T, protocol string) {
			cfg := limits
			cfg.Approval = c.approval
			f := &fixture{protocol: protocol, guard: watchdogmcp.New(cfg)}
			f.client.ElicitationHandler = f.guard.Elicitation(
				func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					select {
					case <-time.After(10 * time.Hour):
						return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				})
			f.connect(t, asks)
			wd, began := newRun(t, watchdog.Budget{WallClock: 2 * time.Hour, Idle: time.Second}), time.Now()
			result, err := f.use(wd.Context(), "ask")
			assert.InDelta(t, c.took, time.Since(began), 2)
			require.ErrorIs(t, err, c.code)
			if err == nil {
				assert.Contains(t, textOf(t, result), c.text)
			}
			if c.text == "accept" {
				assert.Equal(t, 2*time.Hour, wd.Remaining())
			}
			time.Sleep(10 * time.Hour)
		})
	}
}

// TestWords checks that what the run asks for is at the end of the next result, once, unless the host reads it itself.
func TestWords(t *testing.T) {
	for says, c := range map[string]struct {
		budget watchdog.Budget
		after  time.Duration
		none   bool
	}{
		"Leave that and try another way": {budget: watchdog.Budget{
			Idle: time.Hour, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveUnstuck}},
		}, after: time.Hour},
		"Call no more tools": {budget: watchdog.Budget{WallClock: 2 * time.Hour, Reserve: time.Hour}, after: time.Hour},
		"":                   {budget: watchdog.Budget{WallClock: 2 * time.Hour, Reserve: time.Hour}, after: time.Hour, none: true},
	} {
		bubbles(t, says, func(t *testing.T, protocol string) {
			cfg := limits
			cfg.NoMessages = c.none
			f := (&fixture{protocol: protocol, guard: watchdogmcp.New(cfg)}).connect(t, nil)
			wd := newRun(t, c.budget)
			time.Sleep(c.after + time.Millisecond)
			for n := range 2 {
				result, err := f.use(wd.Context(), "fail")
				require.NoError(t, err)
				require.Len(t, result.Content, map[bool]int{true: 2, false: 1}[n == 0 && !c.none])
				assert.Contains(t, textOf(t, result), "no such file\n")
				if n == 0 {
					assert.Contains(t, textOf(t, result), says)
				}
			}
			directive, ok := wd.Poll()
			assert.Equal(t, c.none, ok, directive.Kind)
		})
	}
}

// TestTwoRuns checks that runs at once, with one session, are ended each by itself.
func TestTwoRuns(t *testing.T) {
	bubbles(t, "", func(t *testing.T, protocol string) {
		f := (&fixture{protocol: protocol}).connect(t, nil)
		var both sync.WaitGroup
		for clock, code := range map[time.Duration]error{30 * time.Second: watchdog.WallClockExceeded, time.Hour: nil} {
			both.Go(func() {
				wd := newRun(t, watchdog.Budget{WallClock: clock})
				began := time.Now()
				result, err := f.use(wd.Context(), "hang")
				assert.ErrorIs(t, err, code)
				assert.Equal(t, code == nil, result != nil)
				assert.InDelta(t, min(clock, time.Minute), time.Since(began), 2)
			})
		}
		both.Wait()
	})
}

// TestResume checks that a run that was cancelled in a call makes no more calls, attached again neither, and goes on
// once it is resumed.
func TestResume(t *testing.T) {
	bubbles(t, "", func(t *testing.T, protocol string) {
		run, cfg := watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
			Store: &watchdog.Memory{}, Budget: watchdog.Budget{WallClock: time.Hour}, Logger: slog.New(slog.DiscardHandler),
		}
		f := (&fixture{protocol: protocol}).connect(t, nil)
		for _, life := range []struct {
			attach func(context.Context, watchdog.Run, watchdog.Config) (*watchdog.Watchdog, error)
			tool   string
			calls  int
		}{{watchdog.New, "hang", 1}, {watchdog.New, "answer", 1}, {watchdog.Resume, "answer", 2}} {
			wd, err := life.attach(t.Context(), run, cfg)
			require.NoError(t, err)
			if life.tool == "hang" {
				time.AfterFunc(time.Second, func() { _, _ = wd.Cancel(watchdog.Cancellation{Reason: "user_cancelled"}) })
			}
			result, err := f.use(wd.Context(), life.tool)
			if life.calls == 1 {
				var stop *watchdog.Stop
				require.ErrorAs(t, err, &stop)
				assert.Equal(t, watchdog.StopReason("user_cancelled"), stop.Code)
			} else {
				require.NoError(t, err)
				assert.Equal(t, "ok\n", textOf(t, result))
			}
			assert.Equal(t, life.calls, f.got("tools/call"))
			require.NoError(t, wd.Close())
		}
	})
}

// TestWithoutRun checks that calls that hang end without a run, too, and that other methods are not guarded.
func TestWithoutRun(t *testing.T) {
	bubbles(t, "", func(t *testing.T, protocol string) {
		f := (&fixture{protocol: protocol}).connect(t, nil)
		result, err := f.use(t.Context(), "stall")
		require.NoError(t, err)
		assert.Contains(t, textOf(t, result), "was ended")
		listed, err := f.session.ListTools(t.Context(), nil)
		require.NoError(t, err)
		assert.Len(t, listed.Tools, len(tools))
	})
}

// BenchmarkCall is a call of a tool that is answered without a server, with and without a guard.
func BenchmarkCall(b *testing.B) {
	for name, guards := range map[string]func(*mcp.Client){
		"bare": func(*mcp.Client) {}, "guarded": watchdogmcp.New(watchdogmcp.Config{}).Attach,
	} {
		b.Run(name, func(b *testing.B) {
			client := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil)
			client.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
					if method == "tools/call" {
						return answer("ok"), nil
					}
					return next(ctx, method, req)
				}
			})
			guards(client)
			here, there := mcp.NewInMemoryTransports()
			_, err := mcp.NewServer(&mcp.Implementation{Name: "files"}, nil).Connect(b.Context(), there, nil)
			require.NoError(b, err)
			session, err := client.Connect(b.Context(), here, nil)
			require.NoError(b, err)
			defer session.Close()
			wd := newRun(b, watchdog.Budget{Idle: time.Hour})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := session.CallTool(wd.Context(), &mcp.CallToolParams{Name: "answer"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
