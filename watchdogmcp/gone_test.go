package watchdogmcp_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
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
		client := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil)
		client.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				if method == "tools/call" {
					return nil, boom
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
		_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "any"})
		assert.Equal(t, boom, err)
		require.NoError(t, session.Close())
		_ = served.Wait()
	})
}
