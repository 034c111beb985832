package watchdogmcp_test

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
