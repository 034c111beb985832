package watchdogmcp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/adapter"
)

const callTool = "tools/call"

// sending guards the calls of tools among what a client sends.
func (g *Guard) sending(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		c, ok := newCall(method, req)
		if !ok {
			return next(ctx, method, req)
		}
		return g.call(ctx, next, c)
	}
}

// A call is one call of a tool.
type call struct {
	session *mcp.ClientSession
	name    string
	input   any
	params  mcp.RequestParams // a copy: those of the caller are not changed
}

func newCall(method string, req mcp.Request) (c call, ok bool) {
	session, ok := req.GetSession().(*mcp.ClientSession)
	if !ok || method != callTool {
		return call{}, false
	}
	switch p := req.GetParams().(type) {
	case *mcp.CallToolParams:
		own := *p
		own.Meta = maps.Clone(p.Meta)
		return call{session: session, name: p.Name, input: p.Arguments, params: &own}, true
	case *mcp.CallToolParamsRaw: // only a middleware sends these
		own := *p
		own.Meta = maps.Clone(p.Meta)
		return call{session: session, name: p.Name, input: p.Arguments, params: &own}, true
	}
	return call{}, false
}

// call makes a call of a tool within its limits.
func (g *Guard) call(ctx context.Context, next mcp.MethodHandler, c call) (mcp.Result, error) {
	wd := watchdog.FromContext(ctx)
	tool := adapter.ToolCall{Tool: c.name, Remote: true}
	if g.cfg.Name != nil {
		tool.Tool = g.cfg.Name(c.session, c.name)
	}
	if wd != nil {
		tool.Input, _ = json.Marshal(c.input) // if that fails, so does the call
	}
	result, ended, err := adapter.Do(ctx, g.guard, tool, func(ctx context.Context) (mcp.Result, error) {
		defer g.tokens.forget(g.tokens.follow(c, watchdog.FromContext(ctx)))
		result, err := next(ctx, callTool, &mcp.ClientRequest[mcp.Params]{Session: c.session, Params: c.params})
		if err != nil {
			return nil, gone(c.session, tool.Tool, err)
		}
		return result, failed(result)
	}, outcome)
	if failure := (*failure)(nil); errors.As(err, &failure) {
		err = nil
	}
	advice := g.guard.TurnIfIdle(wd)
	switch {
	case err != nil:
		return nil, err // and the messages wait for a result
	case ended != nil:
		result = &mcp.CallToolResult{IsError: true, Content: texts(ended.Text())}
	}
	if wd == nil || g.cfg.NoMessages {
		return result, nil
	}
	return withMessages(result, adapter.MessagesAfter(ctx, wd, advice)), nil
}
