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
	calls map[token]*followed
}

// A token is a progress token in its session. Its value is a string or a float64: JSON has no other numbers.
type token struct {
	session *mcp.ClientSession
	value   any
}

// A followed call has its progress taken for signs of life of its layer.
type followed struct {
	token
	layer *watchdog.Watchdog // nil for one that is not followed
	next  *followed          // with the same token: only where a host gives it twice
}

func newTokens(guard string) *tokens {
	return &tokens{prefix: "watchdog-" + guard + "-", calls: map[token]*followed{}}
}

// follow gives a call a token if it has none, and follows the call until forget.
func (t *tokens) follow(c call, layer *watchdog.Watchdog) *followed {
	value := c.params.GetProgressToken()
	if value == nil {
		value = t.next()
		c.params.SetProgressToken(value)
	}
	f := &followed{token: token{c.session, keyValue(value)}, layer: layer}
	if f.value == nil {
		f.layer = nil
	}
	if f.layer == nil {
		return f
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f.next = t.calls[f.token]
	t.calls[f.token] = f
	return f
}

func (t *tokens) next() string {
	var digits [20]byte
	return t.prefix + string(strconv.AppendUint(digits[:0], t.last.Add(1), 10))
}

func (t *tokens) forget(f *followed) {
	if f.layer == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	first := t.calls[f.token]
	switch {
	case first != f:
		for first.next != f {
			first = first.next
		}
		first.next = f.next
	case f.next == nil:
		delete(t.calls, f.token)
	default:
		t.calls[f.token] = f.next
	}
}

func (t *tokens) alive(session *mcp.ClientSession, value any) {
	key := token{session, keyValue(value)}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for f := t.calls[key]; f != nil; f = f.next {
		f.layer.Activity() // never waits, and calls nothing of the host's
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
