package watchdogadk_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/tool"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

type runnable interface {
	Run(agent.Context, any) (map[string]any, error)
}

// inTool has the work done by a tool that the runner calls, with its context.
func inTool(b *testing.B, work func(agent.Context)) {
	b.Helper()
	a, err := llmagent.New(llmagent.Config{Name: "coder", Model: scripted(calls("drive")), Tools: []tool.Tool{
		toolOf("drive", func(ctx agent.Context, _ map[string]any) (map[string]any, error) {
			work(ctx)
			return map[string]any{}, nil
		}),
	}})
	require.NoError(b, err)
	r, err := runner.NewInMemory(app, a)
	require.NoError(b, err)
	message := genai.NewContentFromText("go", genai.RoleUser)
	for _, err := range r.Run(newRun(b, watchdog.Budget{Idle: time.Hour}).Context(), user, sessionID, message, agent.RunConfig{}) {
		require.NoError(b, err)
	}
}

// BenchmarkTool is a call of a tool that answers at once.
func BenchmarkTool(b *testing.B) {
	bare := toolOf("look", ok)
	args := map[string]any{"query": "x"}
	for name, t := range map[string]tool.Tool{
		"bare": bare, "guarded": watchdogadk.New(watchdogadk.Config{}).Tool(bare),
	} {
		b.Run(name, func(b *testing.B) {
			inTool(b, func(ctx agent.Context) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := t.(runnable).Run(ctx, args); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkPiece is one piece of an answer that streams.
func BenchmarkPiece(b *testing.B) {
	piece := partial("a")
	m := scripted()
	for name, wrap := range map[string]func(model.LLM) model.LLM{
		"bare": func(m model.LLM) model.LLM { return m }, "guarded": watchdogadk.New(watchdogadk.Config{}).Model,
	} {
		b.Run(name, func(b *testing.B) {
			wd := newRun(b, watchdog.Budget{Idle: time.Hour})
			m.turns = []turn{func(context.Context, *model.LLMRequest) iter.Seq2[*model.LLMResponse, error] {
				return func(yield func(*model.LLMResponse, error) bool) {
					for yield(piece, nil) {
					}
				}
			}}
			b.ReportAllocs()
			b.ResetTimer()
			n := 0
			for range wrap(m).GenerateContent(wd.Context(), &model.LLMRequest{}, true) {
				if n++; n == b.N {
					break
				}
			}
		})
	}
}
