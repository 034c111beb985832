package watchdogeino_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogeino"
)

// An exampleModel stands for the host's: it searches once, and then says what became of it.
type exampleModel struct{}

func (m exampleModel) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	return m, nil
}

func (exampleModel) Generate(_ context.Context, in []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	if in[len(in)-1].Role == schema.Tool {
		return schema.AssistantMessage("I could not search.", nil), nil
	}
	search := schema.ToolCall{ID: "1", Function: schema.FunctionCall{Name: "search", Arguments: `{}`}}
	return schema.AssistantMessage("", []schema.ToolCall{search}), nil
}

func (m exampleModel) Stream(
	ctx context.Context, in []*schema.Message, opts ...model.Option,
) (*schema.StreamReader[*schema.Message], error) {
	answer, err := m.Generate(ctx, in, opts...)
	return schema.StreamReaderFromArray([]*schema.Message{answer}), err
}

type hangingSearch struct{}

func (hangingSearch) Info(context.Context) (*schema.ToolInfo, error) {
	return &schema.ToolInfo{Name: "search", Desc: "searches"}, nil
}

func (hangingSearch) InvokableRun(ctx context.Context, _ string, _ ...tool.Option) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

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

	guard := watchdogeino.New(watchdogeino.Config{Tools: watchdogeino.Limits{Limit: 50 * time.Millisecond}})
	agent, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
		Name: "helper", Description: "helps", Model: guard.Model(exampleModel{}),
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{
			Tools: []tool.BaseTool{hangingSearch{}}, ToolCallMiddlewares: []compose.ToolMiddleware{guard.ToolMiddleware()},
		}},
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
