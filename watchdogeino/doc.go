// Package watchdogeino guards the agents of github.com/cloudwego/eino: a middleware for adk.ChatModelAgent.
//
// The run is that of the context that the agent is given ([watchdog.Watchdog.Context]). Each call of a tool holds that
// run, is a layer of it with limits of its own, and is a step of the detector of loops; a tool that hangs is ended, and
// the model reads that as the tool's answer and goes on. Each call of the model is activity as its pieces come, and
// spend. What the run asks of the agent ([watchdog.DirectiveRetry], [watchdog.DirectiveUnstuck],
// [watchdog.DirectiveWrapUp]) goes to the model as messages of the user.
//
//	guard := watchdogeino.New(watchdogeino.Config{})
//	agent, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
//		Name: "helper", Description: "helps", Model: chat, Handlers: []adk.ChatModelAgentMiddleware{guard},
//	})
//	events := adk.NewRunner(ctx, adk.RunnerConfig{Agent: agent}).Query(wd.Context(), "...")
//
// It does not guard agents whose messages are schema.AgenticMessage, and does not keep what a tool does from having
// been done: a tool that ignores its context is left behind, see [Limits].Grace.
package watchdogeino
