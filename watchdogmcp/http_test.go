package watchdogmcp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogmcp"
)

// TestHTTP checks a server over HTTP: a call that is ended ends there too, and progress renews one that works for longer. It uses real time,
// because a network connection is not a part of a bubble of fake time.
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
