// Package watchdogmcp guards the calls of tools that a client of the Model Context Protocol makes: one that hangs is
// ended, the model is told and goes on, and what the run asks for reaches the model.
//
//	guard := watchdogmcp.New(watchdogmcp.Config{Tools: watchdogmcp.Limits{Limit: 10 * time.Minute, Idle: time.Minute}})
//	guard.Attach(client)
//	session, err := client.Connect(ctx, transport, nil)
//	result, err := session.CallTool(wd.Context(), &mcp.CallToolParams{Name: "search", Arguments: args})
//
// The run of a call is that of its context. Without one a call that hangs ends, and nothing else is done.
//
// A call that takes too long has an answer that the model can act on: a result with IsError and a text that says what
// happened. What the run asks of the model (see [watchdog.DirectiveUnstuck], [watchdog.DirectiveRetry] and
// [watchdog.DirectiveWrapUp]) is a text at the end of the next result. A call gets a progress token if it has none, and
// each progress notification of its token is a sign of life of the call and of the run.
//
// The package bounds no other method, and cannot know whether a server has stopped a call that was given up: it is told
// with notifications/cancelled. A server that is a command belongs under package stall, see the example.
package watchdogmcp
