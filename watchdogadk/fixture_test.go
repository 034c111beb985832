package watchdogadk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/artifact"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/toolutils"

	"github.com/seed62658d38/watchdog/internal/adapter/adaptertest"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

var newRun = adaptertest.NewRun

// A turn answers one request of the model.
type turn func(ctx context.Context, req *model.LLMRequest) iter.Seq2[*model.LLMResponse, error]

// A script is a model whose turns are written down. After the last it answers "done".
type script struct {
	mu       sync.Mutex
	turns    []turn
	requests []*model.LLMRequest
}

func scripted(turns ...turn) *script { return &script{turns: turns} }

func (*script) Name() string { return "scripted" }

func (s *script) GenerateContent(
	ctx context.Context, req *model.LLMRequest, _ bool,
) iter.Seq2[*model.LLMResponse, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, req)
	if len(s.turns) == 0 {
		return says("done")(ctx, req)
	}
	next := s.turns[0]
	s.turns = s.turns[1:]
	return next(ctx, req)
}

// asked returns the text of the n-th request, counted from 0.
func (s *script) asked(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n >= len(s.requests) {
		return "there was no such request"
	}
	text, _ := json.Marshal(s.requests[n].Contents)
	return string(text)
}

// count returns how many requests there were.
func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// answers yields the responses, and waits before each.
func answers(pause time.Duration, responses ...*model.LLMResponse) turn {
	return func(context.Context, *model.LLMRequest) iter.Seq2[*model.LLMResponse, error] {
		return func(yield func(*model.LLMResponse, error) bool) {
			for _, r := range responses {
				time.Sleep(pause)
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// says answers with a text.
func says(text string) turn { return answers(0, whole(genai.NewPartFromText(text))) }

// calls answers with calls of tools, without arguments.
func calls(tools ...string) turn {
	parts := make([]*genai.Part, len(tools))
	for i, name := range tools {
		parts[i] = genai.NewPartFromFunctionCall(name, map[string]any{})
	}
	return answers(0, whole(parts...))
}

// asks answers with a call of a tool with one argument.
func asks(tool, key string, value any) turn {
	return answers(0, whole(genai.NewPartFromFunctionCall(tool, map[string]any{key: value})))
}

func whole(parts ...*genai.Part) *model.LLMResponse {
	return &model.LLMResponse{Content: &genai.Content{Role: genai.RoleModel, Parts: parts}, TurnComplete: true}
}

func partial(text string) *model.LLMResponse {
	r := whole(genai.NewPartFromText(text))
	r.Partial, r.TurnComplete = true, false
	return r
}

// used says in a response what its call used.
func used(r *model.LLMResponse, in, out int32) *model.LLMResponse {
	r.UsageMetadata = &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: in, CandidatesTokenCount: out}
	return r
}

// fails fails, perhaps after some responses.
func fails(err error, responses ...*model.LLMResponse) turn {
	return func(context.Context, *model.LLMRequest) iter.Seq2[*model.LLMResponse, error] {
		return func(yield func(*model.LLMResponse, error) bool) {
			for _, r := range responses {
				if !yield(r, nil) {
					return
				}
			}
			yield(nil, err)
		}
	}
}

// stalls answers with the responses, and then nothing more until its context ends, or for as long as it likes.
func stalls(ignore time.Duration, responses ...*model.LLMResponse) turn {
	return func(ctx context.Context, _ *model.LLMRequest) iter.Seq2[*model.LLMResponse, error] {
		return func(yield func(*model.LLMResponse, error) bool) {
			for _, r := range responses {
				if !yield(r, nil) {
					return
				}
			}
			if ignore > 0 {
				time.Sleep(ignore)
				yield(whole(genai.NewPartFromText("too late")), nil)
				return
			}
			<-ctx.Done()
			yield(nil, ctx.Err())
		}
	}
}

// A bareTool is a tool without the help of functiontool.
type bareTool struct {
	name string
	run  func(ctx agent.Context, args map[string]any) (map[string]any, error)
	long bool
}

func toolOf(name string, run func(agent.Context, map[string]any) (map[string]any, error)) *bareTool {
	return &bareTool{name: name, run: run}
}

func (t *bareTool) Name() string        { return t.name }
func (*bareTool) Description() string   { return "" }
func (t *bareTool) IsLongRunning() bool { return t.long }
func (t *bareTool) Declaration() *genai.FunctionDeclaration {
	return &genai.FunctionDeclaration{Name: t.name}
}

func (t *bareTool) ProcessRequest(_ agent.Context, req *model.LLMRequest) error {
	return toolutils.PackTool(req, t)
}

func (t *bareTool) Run(ctx agent.Context, args any) (map[string]any, error) {
	return t.run(ctx, args.(map[string]any))
}

// A streamTool is a tool that streams, without the help of functiontool.
type streamTool struct {
	bareTool
	run func(ctx agent.Context, args map[string]any, yield func(string, error) bool)
}

func streamOf(name string, run func(agent.Context, map[string]any, func(string, error) bool)) *streamTool {
	return &streamTool{bareTool{name: name}, run}
}

func (t *streamTool) ProcessRequest(_ agent.Context, req *model.LLMRequest) error {
	return toolutils.PackTool(req, t)
}

func (t *streamTool) RunStream(ctx agent.Context, args any) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) { t.run(ctx, args.(map[string]any), yield) }
}

// A stage is a runner over an agent, in memory.
type stage struct {
	t        *testing.T
	runner   *runner.Runner
	sessions session.Service
}

const app, user, sessionID = "app", "user", "s-1"

func newAgent(t *testing.T, cfg llmagent.Config) agent.Agent {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "coder"
	}
	a, err := llmagent.New(cfg)
	require.NoError(t, err)
	return a
}

func newStage(t *testing.T, a agent.Agent, plugins ...*plugin.Plugin) *stage {
	t.Helper()
	sessions := session.InMemoryService()
	r, err := runner.New(runner.Config{
		AppName: app, Agent: a, SessionService: sessions, ArtifactService: artifact.InMemoryService(),
		AutoCreateSession: true, PluginConfig: runner.PluginConfig{Plugins: plugins},
	})
	require.NoError(t, err)
	return &stage{t, r, sessions}
}

// newGuarded is a stage with one agent, whose model and tools are guarded.
func newGuarded(t *testing.T, g *watchdogadk.Guard, m model.LLM, tools ...tool.Tool) *stage {
	t.Helper()
	return newStage(t, newAgent(t, llmagent.Config{Model: g.Model(m), Tools: g.Tools(tools...)}))
}

// ask says something to the agent, and returns the last text of its events, but for partial ones.
func (s *stage) ask(ctx context.Context, text string) (last string, err error) {
	s.t.Helper()
	return s.send(ctx, genai.NewContentFromText(text, genai.RoleUser))
}

// run says "go" to the agent, which answers, and returns its answer.
func (s *stage) run(ctx context.Context) (last string) {
	s.t.Helper()
	last, err := s.ask(ctx, "go")
	require.NoError(s.t, err)
	return last
}

// leave says "go" to the agent, and reads no more than the first event.
func (s *stage) leave(ctx context.Context) {
	cfg := agent.RunConfig{StreamingMode: agent.StreamingModeSSE}
	for range s.runner.Run(ctx, user, sessionID, genai.NewContentFromText("go", genai.RoleUser), cfg) {
		break
	}
}

// answer answers the last call of a function that the session has, as a person does.
func (s *stage) answer(ctx context.Context, function string, with map[string]any) {
	s.t.Helper()
	part := genai.NewPartFromFunctionResponse(function, with)
	for e := range s.session().Events().All() {
		for _, p := range e.Content.Parts {
			if p.FunctionCall != nil && p.FunctionCall.Name == function {
				part.FunctionResponse.ID = p.FunctionCall.ID
			}
		}
	}
	_, err := s.send(ctx, genai.NewContentFromParts([]*genai.Part{part}, genai.RoleUser))
	require.NoError(s.t, err)
}

func (s *stage) send(ctx context.Context, message *genai.Content) (last string, err error) {
	s.t.Helper()
	cfg := agent.RunConfig{StreamingMode: agent.StreamingModeSSE}
	for event, err := range s.runner.Run(ctx, user, sessionID, message, cfg) {
		if err != nil {
			return last, err
		}
		if event.Content != nil && !event.Partial {
			var parts []string
			for _, p := range event.Content.Parts {
				parts = append(parts, p.Text)
			}
			last = strings.Join(parts, "")
		}
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

// state returns a value of the session's state, nil if there is none.
func (s *stage) state(key string) any {
	s.t.Helper()
	value, _ := s.session().State().Get(key)
	return value
}

func (s *stage) session() session.Session {
	s.t.Helper()
	got, err := s.sessions.Get(context.Background(), &session.GetRequest{AppName: app, UserID: user, SessionID: sessionID})
	require.NoError(s.t, err)
	return got.Session
}

// ok answers at once.
func ok(agent.Context, map[string]any) (map[string]any, error) {
	return map[string]any{"result": "ok"}, nil
}

// sleeps is a tool that takes a time.
func sleeps(name string, d time.Duration) *bareTool {
	return toolOf(name, func(agent.Context, map[string]any) (map[string]any, error) {
		time.Sleep(d)
		return map[string]any{}, nil
	})
}

// until ends with its context, and says why.
func until(ctx agent.Context, _ map[string]any) (map[string]any, error) {
	<-ctx.Done()
	return map[string]any{"result": "too late"}, context.Cause(ctx)
}

// unescaped is JSON as it reads.
func unescaped(text string) string { return strings.ReplaceAll(text, `\"`, `"`) }

// quiet keeps a test's log to itself.
func quiet(t *testing.T) *bytes.Buffer {
	t.Helper()
	var to bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&to, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &to
}

// within checks a time that a limit took: it is exceeded a nanosecond after it.
func within(t *testing.T, want, took time.Duration) {
	t.Helper()
	require.InDelta(t, want, took, 4)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a subtest with fake time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}
