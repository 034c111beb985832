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
// Loops are looked for in each agent by itself, but for the first one of the run: those that work at the same time,
// and those that another one transfers to. One that repeats itself is asked to stop that, and ended by an error of its
// model's call, while the run goes on; so is an agent in a tool. The last message of the user, where the first agent
// begins to work, is a person's, and has all begin anew; the same message again, and the first of a run that the
// process knows of, are taken for those of a program that has the agent continue. Where the first agent is a workflow,
// or there is only a graph, the SDK puts such messages together, too: then the host tells of what a person says, by
// [watchdog.Watchdog.Step] with a step of class loop.Person.
//
// It does not guard agents whose messages are schema.AgenticMessage, and does not keep what a tool does from having
// been done: a tool that ignores its context is left behind, see [Limits].Grace.
package watchdogeino
