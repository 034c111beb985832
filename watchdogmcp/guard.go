package watchdogmcp

import (
	"crypto/rand"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed62658d38/watchdog/internal/adapter"
	"github.com/seed62658d38/watchdog/loop"
)

// DefaultGrace is the default of [Limits].Grace, ten seconds.
const DefaultGrace = adapter.DefaultGrace

// Limits bound one call of a tool. A server is told at the limit, and the model is answered then: Grace passes only
// where the SDK does not return, such as when a server does not read what is sent to it.
type Limits = adapter.Limits

// Config says how the calls of a client's tools are guarded. The zero value bounds each call by half an hour.
type Config struct {
	// Tools bounds every tool but those that Tool names.
	Tools Limits
	// Tool has the limits of single tools by name. A field that is zero there is that of Tools.
	Tool map[string]Limits
	// Name returns the name of a server's tool: in Tool, in what the run spends, in layers, and for the model. Nil means
	// the name that the server gave it, which tools of several servers may share.
	Name func(session *mcp.ClientSession, tool string) string
	// Class returns what a tool does, for the detector of loops. It gets the name of Name. Nil, and an unknown class,
	// mean that it is not known. Both are called on the goroutine of the call: they must be quick, and a panic of them is
	// one of the call.
	Class func(tool string) loop.Class
	// NoMessages leaves the results of servers as they are. Without it, what the run asks of the model is a text at their
	// end. Set it if you read the directives of the run yourself, or if the results go to no model.
	NoMessages bool
	// ShowProgress shows the client's ProgressNotificationHandler also the progress of calls that had no token until the
	// guard gave them one. That of other calls it sees in any case.
	ShowProgress bool
	// Logger gets what no caller is returned. Nil means that of the run, or [slog.Default].
	Logger *slog.Logger
}

// A Guard guards the calls of tools of one or more clients. It is safe for concurrent use, keeps nothing of a run that
// has ended, and starts no goroutine that outlives a call.
type Guard struct {
	cfg    Config
	guard  *adapter.Guard
	tokens *tokens
}

// New returns a guard. It copies cfg, but not its map.
func New(cfg Config) *Guard {
	return &Guard{
		cfg:    cfg,
		guard:  adapter.New(adapter.Config{Tools: cfg.Tools, Tool: cfg.Tool, Class: cfg.Class, Logger: cfg.Logger}),
		tokens: newTokens(rand.Text()),
	}
}

// Attach adds the guard to a client, as middleware for what it sends and what it receives. Call it once for a client,
// before what should see the results of the guard is added. One guard for the clients of an agent sees the turns of
// all of them.
func (g *Guard) Attach(client *mcp.Client) {
	client.AddSendingMiddleware(g.sending)
	client.AddReceivingMiddleware(g.receiving)
}
