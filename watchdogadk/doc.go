// Package watchdogadk guards agents of Google's Agent Development Kit (google.golang.org/adk/v2) with a watchdog: calls
// of tools and models that hang end, and the model is told; what the agent spends counts, and stays within its limits;
// and what the run asks for reaches the model.
//
// The run is the one of the context that is given to the runner:
//
//	guard := watchdogadk.New(watchdogadk.Config{})
//	coder, err := llmagent.New(llmagent.Config{
//		Name: "coder", Model: guard.Model(llm), Tools: guard.Tools(search, build), Toolsets: guard.Toolsets(files),
//	})
//	// ...
//	for event, err := range runner.Run(wd.Context(), user, session, message, agent.RunConfig{}) {
//
// [Guard.Tool] and [Guard.Toolset] end a call that takes too long, or is silent for too long, also if it ignores its
// context. [Guard.Model] ends a stream that stalls, counts tokens and calls, and adds what the run asks of the model to
// the next request. [Guard.Plugin] does what can be done without wrapping anything: signs of life, spend and the words
// to the model; a plugin cannot end a call. [Guard.Invocations] is for a person who types: each message is a run, which
// ends the calls that are wrapped.
//
// Loops are looked for in each agent by itself, where several work at the same time: those of a parallel agent, and
// one that a turn is delegated to. One that repeats itself is asked to stop that, and ended by an error of its model's
// call, while the run goes on; so is an agent in a guarded tool. Agents that transfer to each other are one. What
// stands in the message of an invocation is a person's, and has the agents begin anew; the same message again, and the
// first of a run that the process knows of, are taken for those of a program that has the agent continue.
//
// What a guard does to an agent that runs in a context without a run: it ends its hung tools, and counts nothing.
//
// The package does not guard live sessions (runner.RunLive), which never call the model's GenerateContent, and opens no
// hold for a person's approval: that lies between two calls of the runner, and is the host's.
package watchdogadk
