package watchdogeino_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogeino"
)

// BenchmarkTool is a call of a tool, bare and with its hold, its layer and its step, in a run that is kept in memory.
func BenchmarkTool(b *testing.B) {
	bare := func(context.Context, string, ...tool.Option) (string, error) { return "ok", nil }
	wd := newRun(b, watchdog.Budget{Idle: time.Hour})
	guarded, err := watchdogeino.New(watchdogeino.Config{}).WrapInvokableToolCall(wd.Context(), bare, &adk.ToolContext{Name: "look"})
	require.NoError(b, err)
	for name, call := range map[string]adk.InvokableToolCallEndpoint{"bare": bare, "guarded": guarded} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := call(wd.Context(), `{"q":"x"}`); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPiece is one piece of a model's answer, from its sender to its reader.
func BenchmarkPiece(b *testing.B) {
	wd := newRun(b, watchdog.Budget{Idle: time.Hour})
	piece := schema.AssistantMessage("x", nil)
	for _, guarded := range []bool{false, true} {
		name := map[bool]string{false: "bare", true: "guarded"}[guarded]
		b.Run(name, func(b *testing.B) {
			var m model.BaseChatModel = scripted(func(_ context.Context, send func(*schema.Message)) error {
				for range b.N {
					send(piece)
				}
				return nil
			})
			if guarded {
				m, _ = watchdogeino.New(watchdogeino.Config{}).WrapModel(wd.Context(), m, nil)
			}
			b.ReportAllocs()
			b.ResetTimer()
			in, err := m.Stream(wd.Context(), nil)
			require.NoError(b, err)
			defer in.Close()
			for err == nil {
				_, err = in.Recv()
			}
			require.Equal(b, io.EOF, err)
		})
	}
}
