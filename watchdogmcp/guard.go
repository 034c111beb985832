package watchdogmcp

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed62658d38/watchdog"
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

const notifyProgress = "notifications/progress"

// receiving takes the progress of calls for their signs of life.
func (g *Guard) receiving(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == notifyProgress && g.progress(req) {
			return nil, nil
		}
		return next(ctx, method, req)
	}
}

// progress notes a progress notification, and reports whether it is only for the guard.
func (g *Guard) progress(req mcp.Request) bool {
	session, _ := req.GetSession().(*mcp.ClientSession)
	p, ok := req.GetParams().(*mcp.ProgressNotificationParams)
	if !ok || p == nil {
		return false
	}
	g.tokens.alive(session, p.ProgressToken)
	return !g.cfg.ShowProgress && g.tokens.isOwn(p.ProgressToken)
}

// tokens knows the calls under way by their progress tokens.
type tokens struct {
	prefix string // of the guard's own tokens
	last   atomic.Uint64

	mu    sync.RWMutex
	calls map[token][]*watchdog.Watchdog // their layers: more than one only where a host gives a token twice
}

// A token is a progress token in its session. Its value is a string or a float64: JSON has no other numbers.
type token struct {
	session *mcp.ClientSession
	value   any
}

func newTokens(guard string) *tokens {
	return &tokens{prefix: "watchdog-" + guard + "-", calls: map[token][]*watchdog.Watchdog{}}
}

// follow gives a call a token if it has none, and takes its progress for signs of life of the layer until forget, to
// which it returns the key.
func (t *tokens) follow(c call, layer *watchdog.Watchdog) (key token) {
	value := c.params.GetProgressToken()
	if value == nil {
		var digits [20]byte
		value = t.prefix + string(strconv.AppendUint(digits[:0], t.last.Add(1), 10))
		c.params.SetProgressToken(value)
	}
	key = token{c.session, keyValue(value)}
	if key.value == nil || layer == nil {
		return token{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls[key] = append(t.calls[key], layer)
	return key
}

func (t *tokens) forget(key token, layer *watchdog.Watchdog) {
	t.mu.Lock()
	defer t.mu.Unlock()
	layers := t.calls[key]
	if at := slices.Index(layers, layer); at >= 0 {
		layers = slices.Delete(layers, at, at+1)
	}
	if t.calls[key] = layers; len(layers) == 0 {
		delete(t.calls, key)
	}
}

func (t *tokens) alive(session *mcp.ClientSession, value any) {
	key := token{session, keyValue(value)}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, layer := range t.calls[key] {
		layer.Activity() // never waits, and calls nothing of the host's
	}
}

// isOwn reports whether a token is one that the guard gave, also to a call that has ended.
func (t *tokens) isOwn(value any) bool {
	text, ok := value.(string)
	return ok && strings.HasPrefix(text, t.prefix)
}

// keyValue returns a token as it comes back from a server, nil for what is none.
func keyValue(value any) any {
	switch v := value.(type) {
	case string, float64:
		return v
	case int:
		return float64(v)
	case int32:
		return float64(v)
	case int64:
		return float64(v)
	}
	return nil
}
