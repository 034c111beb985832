// Package watchdogeino guards the agents and graphs of github.com/cloudwego/eino: a tool or a model that hangs is
// ended, the model is told and goes on, and what the run asks for reaches the model.
//
//	guard := watchdogeino.New(watchdogeino.Config{})
//	chat = guard.Model(chat)
//	nodes := compose.ToolsNodeConfig{Tools: tools, ToolCallMiddlewares: []compose.ToolMiddleware{guard.ToolMiddleware()}}
//	events := adk.NewRunner(ctx, adk.RunnerConfig{Agent: agent}).Query(wd.Context(), "...") // wd is the run
//
// The run is that of the context which the agent is given. Without one hung tools end, and nothing else is done. The
// package counts no tokens, finds no loops, and does not guard agents whose messages are schema.AgenticMessage.
package watchdogeino
