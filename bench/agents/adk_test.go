package agents_test

import (
	"context"
	"encoding/json"
	"iter"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"

	"github.com/seed62658d38/watchdog/watchdogadk"
)

// playADK runs the agent by the SDK's runner.
func playADK(ctx context.Context, j *job, turns []turn) ([]string, error) {
	guard := watchdogadk.New(watchdogadk.Config{MaxOutput: maxOutput})
	m := &adkModel{job: j, turns: turns}
	var tools []tool.Tool
	for _, name := range []string{"look", "work", "hang", "approve"} {
		type input struct {
			N int `json:"n"`
		}
		t, err := functiontool.New(functiontool.Config{Name: name, Description: name},
			func(ctx agent.Context, in input) (map[string]any, error) {
				result, err := j.use(ctx, name, in.N)
				return map[string]any{"result": result}, err
			})
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	a, err := llmagent.New(llmagent.Config{Name: "coder", Model: guard.Model(m), Tools: guard.Tools(tools...)})
	if err != nil {
		return nil, err
	}
	r, err := runner.New(runner.Config{
		AppName: "app", Agent: a, SessionService: session.InMemoryService(), AutoCreateSession: true,
	})
	if err != nil {
		return nil, err
	}
	message := genai.NewContentFromText("go", genai.RoleUser)
	cfg := agent.RunConfig{StreamingMode: agent.StreamingModeSSE}
	for _, err := range r.Run(ctx, "user", "s-1", message, cfg) {
		if err != nil {
			return m.told, err
		}
	}
	return m.told, nil
}

type adkModel struct {
	job   *job
	turns []turn
	told  []string
}

func (*adkModel) Name() string { return "scripted" }

func (m *adkModel) GenerateContent(
	_ context.Context, req *model.LLMRequest, _ bool,
) iter.Seq2[*model.LLMResponse, error] {
	text, _ := json.Marshal(req.Contents)
	m.told = append(m.told, string(text))
	return func(yield func(*model.LLMResponse, error) bool) {
		if len(m.turns) == 0 {
			yield(adkAnswer(genai.NewPartFromText("done")), nil)
			return
		}
		next := m.turns[0]
		m.turns = m.turns[1:]
		if next.stalls {
			half := adkAnswer(genai.NewPartFromText("half"))
			half.Partial, half.TurnComplete, half.UsageMetadata = true, false, nil
			yield(half, nil)
			yield(nil, m.job.die())
			return
		}
		yield(adkAnswer(genai.NewPartFromFunctionCall(next.tool, map[string]any{"n": next.input})), nil)
	}
}

func adkAnswer(part *genai.Part) *model.LLMResponse {
	return &model.LLMResponse{
		Content: genai.NewContentFromParts([]*genai.Part{part}, genai.RoleModel), TurnComplete: true,
		UsageMetadata: &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 1000, CandidatesTokenCount: said - 1000},
	}
}
