package watchdogmcp_test

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogmcp"
)

// A bench is a client of a server in memory, in a run.
type bench struct {
	session   *mcp.ClientSession
	receiving mcp.MethodHandler
	wd        *watchdog.Watchdog
}

// newBench connects a client, guarded or not. With call, calls of tools go there and not to the server.
func newBench(b *testing.B, guarded bool, call func(ctx context.Context) (mcp.Result, error)) (n bench) {
	b.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "files"}, nil)
	server.AddTool(&mcp.Tool{Name: "answer", InputSchema: map[string]any{"type": "object"}}, mcp.ToolHandler(tools["answer"]))
	client := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil)
	client.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if call != nil && method == "tools/call" {
				return call(ctx)
			}
			return next(ctx, method, req)
		}
	})
	if guarded {
		watchdogmcp.New(watchdogmcp.Config{}).Attach(client)
	}
	client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler { n.receiving = next; return next })
	here, there := mcp.NewInMemoryTransports()
	_, err := server.Connect(b.Context(), there, nil)
	require.NoError(b, err)
	n.session, err = client.Connect(b.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: protocols[0]})
	require.NoError(b, err)
	b.Cleanup(func() { _ = n.session.Close() })
	n.wd = newRun(b, watchdog.Budget{Idle: time.Hour})
	return n
}

// BenchmarkCall is a call of a tool that is answered without a server, and one of a server in memory, with and without
// a guard: with its hold and its token.
func BenchmarkCall(b *testing.B) {
	ok := answer("ok")
	here := func(context.Context) (mcp.Result, error) { return ok, nil }
	for _, c := range []struct {
		name    string
		guarded bool
		call    func(context.Context) (mcp.Result, error)
	}{
		{"answered/bare", false, here}, {"answered/guarded", true, here},
		{"server/bare", false, nil}, {"server/guarded", true, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			n := newBench(b, c.guarded, c.call)
			b.ReportAllocs()
			for b.Loop() {
				params := &mcp.CallToolParams{Name: "answer", Arguments: map[string]any{"q": "x"}}
				if _, err := n.session.CallTool(n.wd.Context(), params); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkProgress is what the guard does for a progress notification of a call that is under way.
func BenchmarkProgress(b *testing.B) {
	began, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	n := newBench(b, true, func(context.Context) (mcp.Result, error) {
		close(began)
		<-end
		return answer("ok"), nil
	})
	go func() {
		params := &mcp.CallToolParams{Name: "answer", Meta: mcp.Meta{"progressToken": "mine"}}
		_, err := n.session.CallTool(n.wd.Context(), params)
		ended <- err
	}()
	<-began
	req := &mcp.ClientRequest[*mcp.ProgressNotificationParams]{
		Session: n.session, Params: &mcp.ProgressNotificationParams{ProgressToken: "mine", Progress: 1},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.receiving(b.Context(), "notifications/progress", req); err != nil {
			b.Fatal(err)
		}
	}
	close(end)
	require.NoError(b, <-ended)
}
