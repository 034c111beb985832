package watchdogmcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
)

// DefaultGrace is the default of [Limits].Grace.
const DefaultGrace = 10 * time.Second

// Config says how the calls of a client's tools are guarded. The zero value bounds each call by half an hour.
type Config struct {
	// Tools bounds every tool but those that Tool names.
	Tools Limits
	// Tool has the limits of single tools by name. A field that is zero there is that of Tools. Servers whose tools share
	// a name need a client and a guard each.
	Tool map[string]Limits
	// Approval is how long a person may take to answer a server, see [Guard.Elicitation]. The run's wall clock stands
	// still meanwhile. Zero means a day; with [watchdog.None] nothing is held.
	Approval time.Duration
	// NoMessages leaves the results of servers as they are. Without it, what the run asks of the model is a text at their
	// end. Set it if you read the directives of the run yourself, or if the results go to no model.
	NoMessages bool
}

// Limits bound one call of a tool.
type Limits struct {
	// Limit is how long a call may take. Zero means half an hour, [watchdog.NoLimit] all that is left of the run.
	Limit time.Duration
	// Idle is how long a call may go without a progress notification. Zero and [watchdog.NoLimit] mean no limit.
	Idle time.Duration
	// Grace is how long the SDK then has to return, which it does at once, unless the server does not read what is sent
	// to it. Zero means [DefaultGrace].
	Grace time.Duration
}

// A Guard guards the calls of tools of one or more clients. It is safe for concurrent use, and keeps nothing of a call
// that has ended.
type Guard struct {
	cfg Config

	mu    sync.Mutex
	calls map[*call]struct{} // under way
}

// New returns a guard. It copies cfg, but not its map.
func New(cfg Config) *Guard { return &Guard{cfg: cfg, calls: map[*call]struct{}{}} }

// Attach adds the guard to a client, as middleware for what it sends and what it receives. Call it once for a client,
// before what should see the results of the guard is added.
func (g *Guard) Attach(client *mcp.Client) {
	client.AddSendingMiddleware(g.sending)
	client.AddReceivingMiddleware(g.receiving)
}

// A call is a call of a tool that is under way.
type call struct {
	run     *watchdog.Watchdog
	session *mcp.ClientSession
	token   string
	timer   *idle.Timer
}

// follow has a call known until it is forgotten.
func (g *Guard) follow(c *call) (forget func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls[c] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.calls, c)
	}
}

// of returns the calls under way of a session.
func (g *Guard) of(session mcp.Session) (all []*call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.calls {
		if mcp.Session(c.session) == session {
			all = append(all, c)
		}
	}
	return all
}

// ownToken is how the tokens begin that the guard gives.
const ownToken = "watchdog-"

// receiving takes the progress of calls for their signs of life. That of the guard's own tokens goes nowhere else.
func (g *Guard) receiving(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		p, ok := req.GetParams().(*mcp.ProgressNotificationParams)
		if !ok || p == nil {
			return next(ctx, method, req)
		}
		token := tokenText(p.ProgressToken)
		for _, c := range g.of(req.GetSession()) {
			if c.token == token {
				c.timer.Alive()
			}
		}
		if strings.HasPrefix(token, `"`+ownToken) {
			return nil, nil
		}
		return next(ctx, method, req)
	}
}

// tokenText makes tokens alike that a server gives back in another form: each number is a float64 then.
func tokenText(token any) string {
	text, _ := json.Marshal(token) // plain data
	return string(text)
}

// An ElicitationHandler asks a person what a server wants to know.
type ElicitationHandler = func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error)

// Elicitation returns a handler for [mcp.ClientOptions], guarded: while it waits for a person, the runs of the calls
// under way in its session may be silent, and their wall clocks stand still, as the limits of these calls do.
func (g *Guard) Elicitation(ask ElicitationHandler) ElicitationHandler {
	return func(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		limit := watchdog.HoldLimit{Cap: cmp.Or(g.cfg.Approval, 24*time.Hour), PausesWallClock: true}
		var release []func()
		for _, c := range g.of(req.Session) {
			if hold, err := c.run.Hold(c.run.Context(), "elicitation "+rand.Text(), limit); err == nil { // not for None
				release = append(release, func() { hold.Close() }, c.timer.Widen(watchdog.NoLimit))
			}
		}
		defer func() {
			for _, end := range release {
				end()
			}
		}()
		return ask(ctx, req)
	}
}
