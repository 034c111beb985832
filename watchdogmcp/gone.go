package watchdogmcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ErrServerGone says that a server has ended, or that the connection to it has, also because the server sent what is no
// message. It is wrapped by the error of a call of
// a tool that was under way then or comes later, and by what the connection of a [Transport] returns.
var ErrServerGone = errors.New("the MCP server is gone")

// gone names the server in the error of a call that has lost it, and returns any other error as it is.
func gone(session *mcp.ClientSession, tool string, err error) error {
	switch {
	case errors.Is(err, ErrServerGone): // a Transport said so, with how it ended
		return fmt.Errorf("call the tool %q: %w", tool, err)
	case isGone(err):
		return fmt.Errorf("call the tool %q of %s: %w: connect again: %w", tool, serverName(session), ErrServerGone, err)
	}
	return err
}

// isGone reports whether an error is one that the end of a connection gives, or a server that sends what is no message:
// the SDK ends the connection then.
func isGone(err error) bool {
	if noMessage := (*json.SyntaxError)(nil); errors.As(err, &noMessage) {
		return true
	}
	for _, end := range []error{
		mcp.ErrConnectionClosed, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.EPIPE, syscall.ECONNRESET,
	} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// serverName returns what a server calls itself.
func serverName(session *mcp.ClientSession) string {
	if hello := session.InitializeResult(); hello != nil && hello.ServerInfo != nil {
		return fmt.Sprintf("server %q", hello.ServerInfo.Name)
	}
	return "a server without a name"
}
