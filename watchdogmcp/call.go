package watchdogmcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

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
		layer := watchdog.FromContext(ctx)
		defer g.tokens.forget(g.tokens.follow(c, layer), layer)
		result, err := next(ctx, callTool, &mcp.ClientRequest[mcp.Params]{Session: c.session, Params: c.params})
		if err != nil {
			return nil, gone(c.session, tool.Tool, err)
		}
		return result, failed(result)
	}, outcome)
	advice := g.guard.TurnIfIdle(wd)
	if err != nil && !errors.As(err, new(*failure)) {
		return nil, err // and the messages wait for a result
	}
	if ended != nil {
		result = &mcp.CallToolResult{IsError: true, Content: texts(ended.Text())}
	}
	if wd == nil || g.cfg.NoMessages {
		return result, nil
	}
	return withMessages(result, adapter.MessagesAfter(ctx, wd, advice)), nil
}

// A failure is a result with IsError. It is an error where calls are counted, and a result for the caller.
type failure struct{ result *mcp.CallToolResult }

// Error returns what the model is told, for the detector of loops alone.
func (f *failure) Error() string { return string(outcome(f.result)) }

// failed returns a failure if the result is one.
func failed(result mcp.Result) error {
	if r, ok := result.(*mcp.CallToolResult); ok && r != nil && r.IsError {
		return &failure{r}
	}
	return nil
}

// outcome returns a result as the detector of loops compares it: a single text as it is, because it may be JSON, and
// anything else as the JSON of the protocol.
func outcome(result mcp.Result) []byte {
	r, ok := result.(*mcp.CallToolResult)
	if !ok || r == nil {
		return nil
	}
	if r.StructuredContent != nil {
		text, _ := json.Marshal(r.StructuredContent)
		return text
	}
	if len(r.Content) == 1 {
		if text, ok := r.Content[0].(*mcp.TextContent); ok {
			return []byte(text.Text)
		}
	}
	var all bytes.Buffer
	for i, content := range r.Content {
		if i > 0 {
			all.WriteByte('\n')
		}
		if text, ok := content.(*mcp.TextContent); ok {
			all.WriteString(text.Text)
			continue
		}
		text, _ := json.Marshal(content)
		all.Write(text)
	}
	return all.Bytes()
}

func texts(all ...string) (content []mcp.Content) {
	for _, text := range all {
		content = append(content, &mcp.TextContent{Text: text})
	}
	return content
}

// withMessages returns a copy of a result with messages at its end.
func withMessages(result mcp.Result, messages []string) mcp.Result {
	r, ok := result.(*mcp.CallToolResult)
	if !ok || r == nil || len(messages) == 0 {
		return result
	}
	told := *r // whose it is, a middleware knows
	told.Content = append(slices.Clip(r.Content), texts(messages...)...)
	return &told
}
