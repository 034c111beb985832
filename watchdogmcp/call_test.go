package watchdogmcp_test

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
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
	"github.com/seed62658d38/watchdog/internal/adapter/adaptertest"
	"github.com/seed62658d38/watchdog/watchdogmcp"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if play := roles[os.Args[1]]; play != nil {
			play(os.Args[2:])
			os.Exit(0)
		}
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise every child process ends a second late
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // most of the time the tests wait for other processes
	goleak.VerifyTestMain(m)
}

// roles are what this program is as a child process of a test, by its first argument.
var roles map[string]func(args []string)

// protocols are those that tests are run with: the last one that begins a session, and the first one without.
var protocols = []string{"2025-11-25", "2026-07-28"}

// A tool is what a server does for a call.
type tool func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error)

// A fixture is a server in this process, and a guarded client.
type fixture struct {
	guard    watchdogmcp.Config
	shared   *watchdogmcp.Guard // in place of one with guard
	client   mcp.ClientOptions
	protocol string
	tools    map[string]tool

	mu      sync.Mutex
	arrived []string // the methods of what the server got
	session *mcp.ClientSession
}

// connect connects both until the end of the test.
func (f *fixture) connect(t *testing.T) *mcp.ClientSession {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
	for name, do := range f.tools {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, mcp.ToolHandler(do))
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
	if f.shared == nil {
		f.shared = watchdogmcp.New(f.guard)
	}
	f.shared.Attach(client)
	here, there := mcp.NewInMemoryTransports()
	served, err := server.Connect(t.Context(), there, nil)
	require.NoError(t, err)
	session, err := client.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: f.protocol})
	require.NoError(t, err)
	if f.protocol != "" {
		require.Equal(t, f.protocol, session.InitializeResult().ProtocolVersion)
	}
	t.Cleanup(func() {
		assert.NoError(t, session.Close())
		_ = served.Wait()
	})
	f.session = session
	return session
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

var newRun = adaptertest.NewRun

func answer(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// textOf returns the texts of a result, one on each line.
func textOf(t *testing.T, result *mcp.CallToolResult) (text string) {
	t.Helper()
	require.NotNil(t, result)
	for i, content := range result.Content {
		if i > 0 {
			text += "\n"
		}
		require.IsType(t, &mcp.TextContent{}, content)
		text += content.(*mcp.TextContent).Text
	}
	return text
}

// TestHTTP checks a server over HTTP: a call that is ended ends there too, and progress renews one that works for
// longer. It uses real time, because a network connection is not a part of a bubble of fake time.
func TestHTTP(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{})
			server := mcp.NewServer(&mcp.Implementation{Name: "files"}, nil)
			add := func(name string, do tool) {
				server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, mcp.ToolHandler(do))
			}
			add("hang", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				<-ctx.Done()
				close(ended)
				return nil, ctx.Err()
			})
			add("work", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return workUntil(ctx, req, ended)
			})
			web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
			defer web.Close()
			client := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil)
			watchdogmcp.New(watchdogmcp.Config{Tools: watchdogmcp.Limits{Idle: 5 * time.Second}}).Attach(client)
			transport := &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: web.Client()}
			session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
			require.NoError(t, err)
			defer func() { assert.NoError(t, session.Close()) }()
			wd := newRun(t, watchdog.Budget{})
			var both sync.WaitGroup
			for _, tool := range []string{"work", "hang"} {
				both.Go(func() {
					result, err := session.CallTool(wd.Context(), &mcp.CallToolParams{Name: tool})
					assert.NoError(t, err)
					assert.Equal(t, tool == "hang", result.IsError, tool)
				})
			}
			both.Wait()
		})
	}
}

// bubble runs a subtest with fake time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

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
			session := answering(t, c.result, c.err)
			wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{ToolCalls: 9}})
			result, err := session.CallTool(wd.Context(), &mcp.CallToolParams{Name: "any"})
			assert.Equal(t, c.err, err)
			if c.err == nil {
				assert.Equal(t, c.result, result)
			}
			assert.Zero(t, wd.Usage()[0].Admitted)
			assert.EqualValues(t, 1, wd.Usage()[0].Used)
		})
	}
}

// answering connects a guarded client inside which a middleware answers the calls of tools.
func answering(t *testing.T, result mcp.Result, answer error) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil)
	client.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "tools/call" {
				return result, answer
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
	t.Cleanup(func() {
		require.NoError(t, session.Close())
		_ = served.Wait()
	})
	return session
}

// report works for ten minutes, tells its progress every 30 seconds, and answers with its token.
func report(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for n := range 20 {
		time.Sleep(30 * time.Second)
		if err := progress(ctx, req, n); err != nil {
			return nil, err
		}
	}
	token, _ := req.Params.GetProgressToken().(string)
	return answer(token), nil
}

// TestProgress checks that progress renews a call, whose the token is, and what the host is shown of it.
func TestProgress(t *testing.T) {
	var shown []any
	handler := func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
		shown = append(shown, req.Params.ProgressToken)
	}
	for _, c := range []struct {
		name  string
		meta  mcp.Meta
		show  bool
		token any // that the host is shown, "watchdog-" for one of the guard
		count int
	}{
		{name: "without a token of the host"},
		{name: "which the host may see", show: true, token: "watchdog-", count: 20},
		{name: "with a token of the host", meta: mcp.Meta{"progressToken": "mine"}, token: "mine", count: 20},
		{name: "that is a number", meta: mcp.Meta{"progressToken": 7, "more": "x"}, token: 7.0, count: 20},
		{name: "that is a large number", meta: mcp.Meta{"progressToken": int64(1) << 40}, token: float64(1 << 40), count: 20},
	} {
		for _, protocol := range protocols {
			bubble(t, c.name+" in "+protocol, func(t *testing.T) {
				shown = nil
				f := &fixture{
					guard:    watchdogmcp.Config{Tools: watchdogmcp.Limits{Idle: time.Minute}, ShowProgress: c.show},
					client:   mcp.ClientOptions{ProgressNotificationHandler: handler},
					protocol: protocol, tools: map[string]tool{"report": report},
				}
				session := f.connect(t)
				wd := newRun(t, watchdog.Budget{})
				params := &mcp.CallToolParams{Name: "report", Meta: c.meta}
				before := len(c.meta)
				result, err := session.CallTool(wd.Context(), params)
				require.NoError(t, err)
				require.False(t, result.IsError, textOf(t, result))
				if protocol == protocols[0] { // the SDK adds to the caller's with the other one
					assert.Len(t, params.Meta, before, "what the caller gave is not changed")
				}
				if c.meta == nil {
					assert.Nil(t, params.GetProgressToken())
					assert.Regexp(t, "^watchdog-[A-Z2-7]+-1$", textOf(t, result))
				}
				synctest.Wait()
				require.Len(t, shown, c.count)
				for _, token := range shown {
					if c.token == "watchdog-" {
						assert.True(t, strings.HasPrefix(token.(string), "watchdog-"))
						continue
					}
					assert.Equal(t, c.token, token)
				}
			})
		}
	}
}

// TestProgressOfOthers checks that a call lives by its own progress alone, and that the progress of a call that was
// given up is shown to nobody.
func TestProgressOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown := 0
		f := &fixture{
			guard: watchdogmcp.Config{Tools: watchdogmcp.Limits{Idle: time.Minute}},
			client: mcp.ClientOptions{ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
				shown++
			}},
			tools: map[string]tool{
				"report": report,
				"hang":   tools["hang"],
				"late": func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					time.Sleep(2 * time.Minute)
					return answer("late"), progress(context.Background(), req, 1)
				},
			},
		}
		f.connect(t)
		wd := newRun(t, watchdog.Budget{})
		lived := make(chan bool)
		go func() {
			result, err := f.use(wd.Context(), "report")
			lived <- err == nil && !result.IsError
		}()
		for _, tool := range []string{"hang", "late"} {
			result, err := f.use(wd.Context(), tool)
			require.NoError(t, err)
			assert.Contains(t, textOf(t, result), "no sign of life for its limit of 1m0s")
		}
		assert.True(t, <-lived)
		assert.Zero(t, shown)
	})
}

// TestProgressOfEqualTokens checks that calls to which a host gave one token at once live by it both.
func TestProgressOfEqualTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{
			guard: watchdogmcp.Config{Tools: watchdogmcp.Limits{Idle: time.Minute}},
			tools: map[string]tool{"report": report, "silent": tools["silent"], "answer": tools["answer"]},
		}
		session := f.connect(t)
		wd := newRun(t, watchdog.Budget{})
		call := func(tool string) *mcp.CallToolResult {
			result, err := session.CallTool(wd.Context(), &mcp.CallToolParams{
				Name: tool, Meta: mcp.Meta{"progressToken": "both"},
			})
			require.NoError(t, err)
			return result
		}
		go func() { assert.False(t, call("report").IsError) }()
		synctest.Wait()
		assert.False(t, call("answer").IsError, "whose end is not that of the others")
		began := time.Now()
		assert.True(t, call("silent").IsError)
		assert.InDelta(t, 11*time.Minute, time.Since(began), 2, "a minute after the last progress")
	})
}

// TestProgressOfSessions checks that equal tokens in two sessions are two tokens, and that calls that have ended are not
// remembered.
func TestProgressOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := watchdogmcp.New(watchdogmcp.Config{Tools: watchdogmcp.Limits{Idle: time.Minute}})
		wd := newRun(t, watchdog.Budget{})
		failed := make(chan bool, 2)
		for _, name := range []string{"report", "silent"} {
			f := &fixture{shared: guard, tools: map[string]tool{"report": report, "silent": tools["silent"]}}
			session := f.connect(t)
			go func() {
				result, err := session.CallTool(wd.Context(), &mcp.CallToolParams{Name: name, Meta: mcp.Meta{"progressToken": 1}})
				assert.NoError(t, err)
				failed <- result.IsError
			}()
			synctest.Wait()
		}
		assert.Equal(t, 2, guard.Followed())
		assert.True(t, <-failed, "the silent one, after a minute")
		assert.Equal(t, 1, guard.Followed())
		assert.False(t, <-failed)
		assert.Zero(t, guard.Followed())
	})
}

// TestProgressWithoutToken checks that what is no token, and progress that nobody asked for, harm nobody.
func TestProgressWithoutToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{tools: map[string]tool{
			"odd": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				for _, token := range []any{nil, map[string]any{"a": 1}, []any{1}, true, "unknown", 1.5} {
					err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token})
					if err != nil {
						return nil, err
					}
				}
				return answer("ok"), nil
			},
		}}
		session := f.connect(t)
		for _, token := range []any{nil, map[string]any{"a": 1}, true} {
			result, err := session.CallTool(newRun(t, watchdog.Budget{}).Context(), &mcp.CallToolParams{
				Name: "odd", Meta: mcp.Meta{"progressToken": token},
			})
			require.NoError(t, err)
			assert.Equal(t, "ok", textOf(t, result))
		}
	})
}
