package watchdogadk_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/adk/v2/tool/toolconfirmation"

	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

// A turn answers one request of the model.
type turn func(ctx context.Context) iter.Seq2[*model.LLMResponse, error]

// A script is a model whose turns are written down.
type script struct {
	turns []turn

	mu       sync.Mutex
	requests []string // their contents
}

func (*script) Name() string { return "scripted" }

func (s *script) GenerateContent(
	ctx context.Context, req *model.LLMRequest, _ bool,
) iter.Seq2[*model.LLMResponse, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, _ := json.Marshal(req.Contents)
	s.requests = append(s.requests, string(text))
	if len(s.requests) > len(s.turns) {
		return speaks("done")(ctx)
	}
	return s.turns[len(s.requests)-1](ctx)
}

// asked returns the text of the n-th request, counted from 0.
func (s *script) asked(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n >= len(s.requests) {
		return "there was no such request"
	}
	return s.requests[n]
}

// count returns how many requests there were.
func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// stalls answers with the responses, with a pause before each, and then nothing more until its context ends.
func stalls(pause time.Duration, responses ...*model.LLMResponse) turn {
	return func(ctx context.Context) iter.Seq2[*model.LLMResponse, error] {
		return func(yield func(*model.LLMResponse, error) bool) {
			for _, r := range responses {
				time.Sleep(pause)
				if !yield(r, nil) {
					return
				}
			}
			<-ctx.Done()
			yield(nil, ctx.Err())
		}
	}
}

func answers(parts ...*genai.Part) turn {
	return func(context.Context) iter.Seq2[*model.LLMResponse, error] {
		return func(yield func(*model.LLMResponse, error) bool) { yield(whole(parts...), nil) }
	}
}

// speaks answers with a text.
func speaks(text string) turn { return answers(genai.NewPartFromText(text)) }

// calls answers with calls of tools.
func calls(tools ...string) turn {
	parts := make([]*genai.Part, len(tools))
	for i, name := range tools {
		parts[i] = genai.NewPartFromFunctionCall(name, map[string]any{"request": "x"})
	}
	return answers(parts...)
}

func whole(parts ...*genai.Part) *model.LLMResponse {
	return &model.LLMResponse{Content: &genai.Content{Role: genai.RoleModel, Parts: parts}, TurnComplete: true}
}

func partial(text string) *model.LLMResponse {
	r := whole(genai.NewPartFromText(text))
	r.Partial, r.TurnComplete = true, false
	return r
}

// A named is what all tools of the tests have. The SDK's own are made by function.
type named string

func (n named) Name() string        { return string(n) }
func (named) Description() string   { return "" }
func (n named) IsLongRunning() bool { return false }
func (n named) Declaration() *genai.FunctionDeclaration {
	return &genai.FunctionDeclaration{Name: string(n)}
}

type bareTool struct {
	named
	run func(ctx agent.Context, args map[string]any) (map[string]any, error)
}

func toolOf(name string, run func(agent.Context, map[string]any) (map[string]any, error)) *bareTool {
	return &bareTool{named(name), run}
}

func (t *bareTool) Run(ctx agent.Context, args any) (map[string]any, error) {
	return t.run(ctx, args.(map[string]any))
}

// A streamTool sends pieces, one in 50 seconds. After an empty one it hangs until its context ends.
type streamTool struct {
	named
	pieces []string
}

func streamOf(name string, pieces ...string) *streamTool { return &streamTool{named(name), pieces} }

func (t *streamTool) RunStream(ctx agent.Context, _ any) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, piece := range t.pieces {
			if piece == "" {
				<-ctx.Done()
				return
			}
			time.Sleep(50 * time.Second)
			if !yield(piece, nil) {
				return
			}
		}
	}
}

// function is a tool of the SDK, which may ask for a person's approval.
func function(t *testing.T, name string, asks bool) tool.Tool {
	t.Helper()
	f, err := functiontool.New(functiontool.Config{Name: name, RequireConfirmation: asks},
		func(agent.Context, map[string]any) (string, error) { return "done", nil })
	require.NoError(t, err)
	return f
}

// A set has one tool, and adds a text to requests.
type set struct{ tool tool.Tool }

func (*set) Name() string                                       { return "set" }
func (s *set) Tools(agent.ReadonlyContext) ([]tool.Tool, error) { return []tool.Tool{s.tool}, nil }

func (*set) ProcessRequest(_ agent.Context, req *model.LLMRequest) error {
	req.Contents = append(req.Contents, genai.NewContentFromText("the set was here", genai.RoleUser))
	return nil
}

func ok(agent.Context, map[string]any) (map[string]any, error) {
	return map[string]any{"result": "ok"}, nil
}

func fail(agent.Context, map[string]any) (map[string]any, error) {
	return nil, errors.New("no such file")
}

// sleeps is a tool that takes a time, whatever its context says.
func sleeps(name string, d time.Duration) *bareTool {
	return toolOf(name, func(agent.Context, map[string]any) (map[string]any, error) {
		time.Sleep(d)
		return map[string]any{"result": "ok"}, nil
	})
}

// until ends with its context, and says why.
func until(ctx agent.Context, _ map[string]any) (map[string]any, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// signs gives signs of life for two minutes, and then hangs.
func signs(ctx agent.Context, args map[string]any) (map[string]any, error) {
	for range 4 {
		time.Sleep(30 * time.Second)
		idle.FromContext(ctx).Alive()
	}
	return until(ctx, args)
}

// A stage is a runner over an agent, in memory.
type stage struct {
	t        *testing.T
	runner   *runner.Runner
	sessions session.Service
}

func newAgent(t *testing.T, cfg llmagent.Config) agent.Agent {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "coder"
	}
	a, err := llmagent.New(cfg)
	require.NoError(t, err)
	return a
}

func newStage(t *testing.T, a agent.Agent) *stage {
	t.Helper()
	sessions := session.InMemoryService()
	r, err := runner.New(runner.Config{AppName: "app", Agent: a, SessionService: sessions, AutoCreateSession: true})
	require.NoError(t, err)
	return &stage{t, r, sessions}
}

// newGuarded is a stage with one agent, whose model and tools are guarded.
func newGuarded(t *testing.T, g *watchdogadk.Guard, m model.LLM, tools ...tool.Tool) *stage {
	t.Helper()
	return newStage(t, newAgent(t, llmagent.Config{Model: g.Model(m), Tools: g.Tools(tools...)}))
}

// ask says something to the agent, and returns the last text of its events.
func (s *stage) ask(ctx context.Context, text string) (last string, err error) {
	s.t.Helper()
	return s.send(ctx, genai.NewContentFromText(text, genai.RoleUser))
}

// answer answers the last question of a tool that the session has, as a person does.
func (s *stage) answer(ctx context.Context, with map[string]any) (last string, err error) {
	s.t.Helper()
	part := genai.NewPartFromFunctionResponse(toolconfirmation.FunctionCallName, with)
	for e := range s.session().Events().All() {
		for _, p := range e.Content.Parts {
			if p.FunctionCall != nil && p.FunctionCall.Name == toolconfirmation.FunctionCallName {
				part.FunctionResponse.ID = p.FunctionCall.ID
			}
		}
	}
	return s.send(ctx, genai.NewContentFromParts([]*genai.Part{part}, genai.RoleUser))
}

func (s *stage) send(ctx context.Context, message *genai.Content) (last string, err error) {
	s.t.Helper()
	cfg := agent.RunConfig{StreamingMode: agent.StreamingModeSSE}
	for event, err := range s.runner.Run(ctx, "user", "s-1", message, cfg) {
		if err != nil {
			return last, err
		}
		if event.Content == nil || event.Partial {
			continue
		}
		var text strings.Builder
		for _, p := range event.Content.Parts {
			text.WriteString(p.Text)
		}
		last = text.String()
	}
	return last, nil
}

// history returns the events of the session as text, but for their IDs and times.
func (s *stage) history() string {
	s.t.Helper()
	var all strings.Builder
	for e := range s.session().Events().All() {
		line, err := json.Marshal(map[string]any{"content": e.Content, "actions": e.Actions})
		require.NoError(s.t, err)
		all.Write(append(line, '\n'))
	}
	return all.String()
}

func (s *stage) session() session.Session {
	s.t.Helper()
	got, err := s.sessions.Get(context.Background(), &session.GetRequest{AppName: "app", UserID: "user", SessionID: "s-1"})
	require.NoError(s.t, err)
	return got.Session
}
