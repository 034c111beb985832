package watchdogadk_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/tool/functiontool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

// An agent whose tool hangs: the model is told, and goes on without it.
func Example() {
	guard := watchdogadk.New(watchdogadk.Config{Tools: watchdogadk.Limits{Limit: 50 * time.Millisecond}})
	build, err := functiontool.New(functiontool.Config{Name: "build"},
		func(ctx agent.Context, _ struct{}) (string, error) {
			<-ctx.Done() // it hangs
			return "", context.Cause(ctx)
		})
	check(err)
	coder, err := llmagent.New(llmagent.Config{
		Name: "coder", Model: guard.Model(&simpleModel{}), Tools: guard.Tools(build),
	})
	check(err)
	agents, err := runner.NewInMemory("example", coder)
	check(err)

	cfg := watchdog.Config{
		Budget: watchdog.Budget{WallClock: time.Hour, Idle: time.Minute}, Logger: slog.New(slog.DiscardHandler),
	}
	err = watchdog.Do(context.Background(), watchdog.Run{}, cfg, func(ctx context.Context, _ *watchdog.Watchdog) error {
		message := genai.NewContentFromText("Build it.", genai.RoleUser)
		for event, err := range agents.Run(ctx, "user", "session", message, agent.RunConfig{}) {
			if err != nil {
				return err
			}
			if text := event.Content.Parts[0].Text; text != "" {
				fmt.Println(strings.ReplaceAll(text, ". ", ".\n"))
			}
		}
		return nil
	})
	fmt.Println("the run:", err)
	// Output:
	// I build.
	// I was told: The call of the tool "build" was ended: it did not finish within its limit of 50ms.
	// Parts of it may have been done.
	// Look at what is there before you call it again, and then with less to do or in another way.
	// the run: <nil>
}

// A simpleModel calls the tool, and then says what it was told.
type simpleModel struct{ called bool }

func (*simpleModel) Name() string { return "simple" }

func (m *simpleModel) GenerateContent(
	_ context.Context, req *model.LLMRequest, _ bool,
) iter.Seq2[*model.LLMResponse, error] {
	parts := []*genai.Part{genai.NewPartFromText("I build."), genai.NewPartFromFunctionCall("build", map[string]any{})}
	if m.called {
		last := req.Contents[len(req.Contents)-1].Parts[0].FunctionResponse
		parts = []*genai.Part{genai.NewPartFromText(fmt.Sprint("I was told: ", last.Response["error"]))}
	}
	m.called = true
	return func(yield func(*model.LLMResponse, error) bool) {
		yield(&model.LLMResponse{Content: genai.NewContentFromParts(parts, genai.RoleModel)}, nil)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
