// Package watchdogmcp guards the tools of MCP servers: a [mcp.Client] whose calls of tools end within their limits, and
// servers over standard input and output of which no process is left.
//
//	guard := watchdogmcp.New(watchdogmcp.Config{Tools: watchdogmcp.Limits{Limit: 10 * time.Minute, Idle: time.Minute}})
//	guard.Attach(client)
//	server, err := watchdogmcp.Command(ctx, exec.Command("files-server"), stall.Config{Step: "files"})
//	session, err := client.Connect(ctx, server, nil)
//	result, err := session.CallTool(wd.Context(), &mcp.CallToolParams{Name: "search", Arguments: args})
//
// # A call of a tool
//
// The run of a call is that of its context. In it each call opens a hold, so that a silent tool is no silence of the
// run, is a layer of the run, counts against [watchdog.Spend], and is a step for the detector of loops; calls that
// overlap are one turn. Without a run a call is bounded by its limit all the same.
//
// A call that takes too long, or that a limit of the run refuses, has an answer that the model can act on: a result
// with IsError and a text that says what happened. It is no error, so that the agent goes on. What the run asks of the
// model (see [watchdog.DirectiveUnstuck], [watchdog.DirectiveRetry], [watchdog.DirectiveWrapUp]) is a text at the end
// of the next result. The server is told with notifications/cancelled.
//
// A call gets a progress token if it has none, and each progress notification of its token is a sign of life of the
// call, for [Limits].Idle.
//
// # A server that is a command
//
// [Command] starts a server as package stall starts commands. Whoever closes the session ends all that the server
// started, also what left its session with setsid, and so does the death of the host on Linux.
//
// # What it does not do
//
// A client knows neither agents nor persons. Give sub-agents that work at the same time a layer of the run each, as
// the context of their calls, or their calls are one turn and one history for the detector of loops; and tell the run
// of what a person says, by [watchdog.Watchdog.Step] with a step of class loop.Person.
//
// The package counts no calls of models and no tokens: see watchdoghttp. It makes no call again, bounds no other
// method, and cannot know whether a server has stopped a call that was given up.
package watchdogmcp
