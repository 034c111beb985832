package watchdogmcp

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed62658d38/watchdog"
)

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
	calls map[token]map[*watchdog.Watchdog]bool // more than one only where a host gives a token twice
}

// A token is a progress token in its session. Its value is a string or a float64: JSON has no other numbers.
type token struct {
	session *mcp.ClientSession
	value   any
}

func newTokens(guard string) *tokens {
	return &tokens{prefix: "watchdog-" + guard + "-", calls: map[token]map[*watchdog.Watchdog]bool{}}
}

// follow gives a call a token if it has none, and takes its progress for signs of life of its layer until the function
// that it returns is called.
func (t *tokens) follow(c call, layer *watchdog.Watchdog) (end func()) {
	if c.params.GetProgressToken() == nil {
		c.params.SetProgressToken(t.prefix + strconv.FormatUint(t.last.Add(1), 10))
	}
	key := token{c.session, keyValue(c.params.GetProgressToken())}
	if layer == nil || key.value == nil {
		return func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls[key] == nil {
		t.calls[key] = map[*watchdog.Watchdog]bool{}
	}
	t.calls[key][layer] = true
	return func() { t.forget(key, layer) }
}

func (t *tokens) forget(key token, layer *watchdog.Watchdog) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.calls[key], layer); len(t.calls[key]) == 0 {
		delete(t.calls, key)
	}
}

func (t *tokens) alive(session *mcp.ClientSession, value any) {
	key := token{session, keyValue(value)}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for layer := range t.calls[key] {
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
