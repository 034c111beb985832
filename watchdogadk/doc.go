// Package watchdogadk guards agents of Google's Agent Development Kit (google.golang.org/adk/v2): a tool or a model
// that hangs is ended, the model is told and goes on, and what the run asks for reaches the model.
//
//	guard := watchdogadk.New(watchdogadk.Config{})
//	coder, err := llmagent.New(llmagent.Config{
//		Name: "coder", Model: guard.Model(llm), Tools: guard.Tools(search, build), Toolsets: guard.Toolsets(files),
//	})
//	// ...
//	for event, err := range runner.Run(wd.Context(), user, session, message, agent.RunConfig{}) {
//
// The run is that of the context which the runner is given. Without one hung tools end, and nothing else is done. The
// package counts no tokens, finds no loops, and does not guard live sessions (runner.RunLive).
package watchdogadk
