package watchdogeino_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogeino"
)

// An agent calls a tool that hangs. The tool is ended at its limit, and the model goes on without it.
func Example() {
	ctx := context.Background()
	wd, err := watchdog.New(ctx, watchdog.Run{}, watchdog.Config{
		Budget: watchdog.Budget{WallClock: time.Hour, Idle: time.Minute},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	chat := scripted(calls("search"), says("I could not search.")) // the host's model
	search := invokable{"search", func(ctx context.Context, _ string) (string, error) { return "", until(ctx) }}
	agent, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
		Name: "helper", Description: "helps", Model: chat,
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{Tools: []tool.BaseTool{search}}},
		Handlers: []adk.ChatModelAgentMiddleware{watchdogeino.New(watchdogeino.Config{
			Tools: watchdogeino.Limits{Limit: 50 * time.Millisecond},
		})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	events := adk.NewRunner(ctx, adk.RunnerConfig{Agent: agent}).Query(wd.Context(), "Who won?")
	for event, more := events.Next(); more; event, more = events.Next() {
		if event.Err != nil {
			fmt.Println(event.Err)
			return
		}
		if m := event.Output.MessageOutput.Message; m.Content != "" {
			fmt.Println(m.Role+":", m.Content)
		}
	}
	// Output:
	// tool: The call of the tool "search" was ended: it did not finish within its limit of 50ms. Parts of it may have been done. Look at what is there before you call it again, and then with less to do or in another way.
	// assistant: I could not search.
}
