package watchdogmcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/idle"
)

const callTool = "tools/call"

// sending guards the calls of tools among what a client sends. The parameters of the caller are not changed.
func (g *Guard) sending(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		session, ok := req.GetSession().(*mcp.ClientSession)
		if !ok || method != callTool {
			return next(ctx, method, req)
		}
		switch p := req.GetParams().(type) {
		case *mcp.CallToolParams:
			own := *p
			own.Meta = maps.Clone(p.Meta)
			return g.call(ctx, next, session, p.Name, &own)
		case *mcp.CallToolParamsRaw: // only a middleware sends these
			own := *p
			own.Meta = maps.Clone(p.Meta)
			return g.call(ctx, next, session, p.Name, &own)
		}
		return next(ctx, method, req)
	}
}

// call makes a call of a tool, and adds to its result what the run asks of the model by now.
func (g *Guard) call(
	ctx context.Context, next mcp.MethodHandler, session *mcp.ClientSession, tool string, params mcp.RequestParams,
) (mcp.Result, error) {
	if params.GetProgressToken() == nil {
		params.SetProgressToken(ownToken + rand.Text())
	}
	wd := watchdog.FromContext(ctx)
	c := &call{run: wd, session: session, token: tokenText(params.GetProgressToken())}
	result, err := g.within(ctx, c, tool, func(ctx context.Context) (mcp.Result, error) {
		return next(ctx, callTool, &mcp.ClientRequest[mcp.Params]{Session: session, Params: params})
	})
	if r, ok := result.(*mcp.CallToolResult); ok && r != nil && err == nil && !g.cfg.NoMessages {
		told := *r // whose it is, a middleware knows
		for _, text := range words(wd) {
			told.Content = append(slices.Clip(told.Content), &mcp.TextContent{Text: text})
		}
		return &told, nil
	}
	return result, err // and the words wait for a result
}

// within makes a call under a hold with a key of its own: a silent tool is no silence of the run. If the call's own
// limits have ended it, the result says so to the model: the agent goes on.
func (g *Guard) within(
	ctx context.Context, c *call, tool string, work func(context.Context) (mcp.Result, error),
) (mcp.Result, error) {
	key, through := fmt.Sprintf("%.64q %s", tool, rand.Text()), context.WithoutCancel(ctx) // the grace
	hold, err := c.run.Hold(through, key, watchdog.HoldLimit{Cap: watchdog.NoLimit})
	if err != nil {
		return nil, err
	}
	defer hold.Close()
	own, all := g.cfg.Tool[tool], g.cfg.Tools
	silence := cmp.Or(own.Idle, all.Idle)
	inside, timer := idle.WithLimit(ctx, silence)
	defer timer.Close()
	c.timer = timer
	defer g.follow(c)()
	out := bound.Do(inside, bound.Call{
		Limit: cmp.Or(own.Limit, all.Limit), Grace: cmp.Or(own.Grace, all.Grace, DefaultGrace),
	}, work)
	if out.Layer == bound.LayerNone || ctx.Err() != nil {
		return out.Result, because(ctx, out.Err)
	}
	if stop := c.run.Stop(); stop != nil { // at the same instant
		return nil, stop
	}
	why := fmt.Sprintf("it gave no sign of life for its limit of %v", silence)
	if out.Overran() {
		why = fmt.Sprintf("it did not finish within its limit of %v", out.Limit)
	}
	text := fmt.Sprintf("The call of the tool %q was ended: %s. It was told to stop, but may still be running. Look at "+
		"what is there before you call it again, and then with less to do or in another way.", tool, why)
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
}

// because adds to the error of a call why its context has ended, which the SDK leaves out.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// sayings are what directives say to the model, with their reason.
var sayings = map[watchdog.DirectiveKind]string{
	watchdog.DirectiveRetry:   "The last step took too long or was cut off (%s). Do it again, in smaller parts.",
	watchdog.DirectiveUnstuck: "You have not got further for a while (%s). Leave that and try another way.",
	watchdog.DirectiveWrapUp: "Only little is left of what this run may use (%s). Call no more tools: say now what is " +
		"done, what is not, and how to go on.",
}

// words polls the run for what it asks of the model by now.
func words(wd *watchdog.Watchdog) (all []string) {
	for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
		if says := sayings[d.Kind]; says != "" {
			all = append(all, fmt.Sprintf(says, d.Reason))
		}
	}
	return all
}
