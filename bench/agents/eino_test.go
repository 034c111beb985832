package agents_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/seed62658d38/watchdog/watchdogeino"
)

// playEino runs the agent by the SDK's runner.
func playEino(ctx context.Context, j *job, turns []turn) ([]string, error) {
	m := &einoModel{job: j, turns: turns}
	var tools []tool.BaseTool
	for _, name := range []string{"look", "work", "hang", "approve"} {
		tools = append(tools, einoTool{j, name})
	}
	a, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
		Name: "coder", Description: "codes", Model: m, MaxIterations: 50,
		Handlers:    []adk.ChatModelAgentMiddleware{watchdogeino.New(watchdogeino.Config{MaxOutput: maxOutput})},
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{Tools: tools}},
	})
	if err != nil {
		return nil, err
	}
	events := adk.NewRunner(ctx, adk.RunnerConfig{Agent: a, EnableStreaming: true}).Query(ctx, "go")
	for event, more := events.Next(); more; event, more = events.Next() {
		if event.Err != nil {
			err = event.Err
		}
		if event.Output != nil && event.Output.MessageOutput != nil && event.Output.MessageOutput.MessageStream != nil {
			event.Output.MessageOutput.MessageStream.Close()
		}
	}
	return m.told, err
}

type einoTool struct {
	job  *job
	name string
}

func (t einoTool) Info(context.Context) (*schema.ToolInfo, error) {
	return &schema.ToolInfo{Name: t.name, Desc: t.name}, nil
}

func (t einoTool) InvokableRun(ctx context.Context, input string, _ ...tool.Option) (string, error) {
	var in struct{ N int }
	if err := json.Unmarshal([]byte(input), &in); err != nil {
		return "", err
	}
	return t.job.use(ctx, t.name, in.N)
}

type einoModel struct {
	job   *job
	turns []turn
	told  []string
}

func (m *einoModel) Generate(
	ctx context.Context, in []*schema.Message, opts ...model.Option,
) (*schema.Message, error) {
	stream, err := m.Stream(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	return schema.ConcatMessageStream(stream)
}

func (m *einoModel) Stream(
	_ context.Context, in []*schema.Message, _ ...model.Option,
) (*schema.StreamReader[*schema.Message], error) {
	text, _ := json.Marshal(in)
	m.told = append(m.told, string(text))
	if len(m.turns) == 0 {
		return schema.StreamReaderFromArray([]*schema.Message{einoAnswer("done")}), nil
	}
	next := m.turns[0]
	m.turns = m.turns[1:]
	if !next.stalls {
		return schema.StreamReaderFromArray([]*schema.Message{einoAnswer("", schema.ToolCall{
			ID: fmt.Sprintf("call-%d", len(m.told)), Type: "function",
			Function: schema.FunctionCall{Name: next.tool, Arguments: fmt.Sprintf(`{"n":%d}`, next.input)},
		})}), nil
	}
	reader, writer := schema.Pipe[*schema.Message](1)
	go func() {
		defer writer.Close()
		writer.Send(schema.AssistantMessage("half", nil), nil)
		writer.Send(nil, m.job.die())
	}()
	return reader, nil
}

func einoAnswer(text string, calls ...schema.ToolCall) *schema.Message {
	answer := schema.AssistantMessage(text, calls)
	answer.ResponseMeta = &schema.ResponseMeta{Usage: &schema.TokenUsage{
		PromptTokens: 1000, CompletionTokens: said - 1000, TotalTokens: said,
	}}
	return answer
}
