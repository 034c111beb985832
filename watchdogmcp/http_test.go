package watchdogmcp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogmcp"
)

// TestHTTP checks a server over HTTP: a call that is ended ends there too, and progress renews one. It uses real time,
// because a network connection is not a part of a bubble of fake time.
func TestHTTP(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{}, 1)
			server := mcp.NewServer(&mcp.Implementation{Name: "files"}, nil)
			add := func(name string, do tool) {
				server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, mcp.ToolHandler(do))
			}
			add("hang", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				<-ctx.Done()
				ended <- struct{}{}
				return nil, ctx.Err()
			})
			add("work", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				for n := range 70 {
					time.Sleep(100 * time.Millisecond)
					if err := progress(ctx, req, n); err != nil {
						return nil, err
					}
				}
				return answer("done"), nil
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
			result, err := session.CallTool(wd.Context(), &mcp.CallToolParams{Name: "work"})
			require.NoError(t, err)
			assert.Equal(t, "done", textOf(t, result))
			result, err = session.CallTool(wd.Context(), &mcp.CallToolParams{Name: "hang"})
			require.NoError(t, err)
			assert.True(t, result.IsError)
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Error("the server was not told")
			}
		})
	}
}
