package watchdogmcp_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/watchdogmcp"
)

// TestConnect checks servers with which no session begins.
func TestConnect(t *testing.T) {
	t.Parallel()
	client := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil)
	t.Run("one that never answers", func(t *testing.T) {
		cmd := command(t, "mcp-mute")
		transport, err := watchdogmcp.Command(t.Context(), cmd, quick)
		require.NoError(t, err)
		transport.ExitGrace = watchdog.None
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err = client.Connect(ctx, transport, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, processesOf(cmd))
	})
	t.Run("one that there is not", func(t *testing.T) {
		transport, err := watchdogmcp.Command(t.Context(), &exec.Cmd{Path: "/no/such/server"}, quick)
		require.NoError(t, err)
		_, err = client.Connect(t.Context(), transport, nil)
		require.ErrorContains(t, err, `server "files": `)
		require.ErrorContains(t, err, "no such file")
	})
	t.Run("one that exits at once", func(t *testing.T) {
		cmd := exec.Command("false")
		transport, err := watchdogmcp.Command(t.Context(), cmd, quick)
		require.NoError(t, err)
		_, err = client.Connect(t.Context(), transport, nil)
		require.ErrorContains(t, err, `server "files"`)
		require.ErrorContains(t, err, "exit status 1")
	})
	t.Run("with a context that has ended", func(t *testing.T) {
		cmd := command(t, "mcp-server")
		transport, err := watchdogmcp.Command(t.Context(), cmd, quick)
		require.NoError(t, err)
		left := errors.New("the person has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(left)
		_, err = transport.Connect(ctx)
		require.ErrorIs(t, err, left)
	})
	t.Run("closed before", func(t *testing.T) {
		cmd := command(t, "mcp-server")
		transport, err := watchdogmcp.Command(t.Context(), cmd, quick)
		require.NoError(t, err)
		result, err := transport.Close()
		require.NoError(t, err)
		require.Nil(t, result)
		_, err = transport.Connect(t.Context())
		require.ErrorIs(t, err, watchdog.ErrInvalid)
	})
	t.Run("a second time", func(t *testing.T) {
		s := start(t, watchdogmcp.Config{}, slack)
		_, err := s.transport.Connect(t.Context())
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, "it was connected or closed already; make a new exec.Cmd")
		result, err := s.use(t, "answer")
		require.NoError(t, err)
		require.Equal(t, "ok", textOf(t, result))
	})
}

func TestCommandInvalid(t *testing.T) {
	for name, c := range map[string]struct {
		cmd *exec.Cmd
		cfg stall.Config
		err string
	}{
		"without a step":        {exec.Command("true"), stall.Config{}, "step"},
		"with a standard input": {&exec.Cmd{Path: "/bin/true", Stdin: strings.NewReader("")}, quick, "Stdin or Stdout is set"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := watchdogmcp.Command(t.Context(), c.cmd, c.cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, c.err)
		})
	}
	transport, err := watchdogmcp.Command(t.Context(), exec.Command("true"), quick)
	require.NoError(t, err)
	transport.ExitGrace = -5
	_, err = transport.Connect(t.Context())
	require.ErrorIs(t, err, watchdog.ErrInvalid)
	_, err = (&watchdogmcp.Transport{}).Connect(t.Context())
	require.ErrorIs(t, err, watchdog.ErrInvalid)
}
