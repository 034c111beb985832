package adapter_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/adapter"
)

// BenchmarkTool is a call of a tool with its hold, its layer and its step, in a run that is kept in memory.
func BenchmarkTool(b *testing.B) {
	wd, err := watchdog.New(b.Context(), watchdog.Run{}, watchdog.Config{Budget: watchdog.Budget{Idle: time.Hour}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, wd.Close()) })
	g := adapter.New(adapter.Config{})
	bare := func(context.Context) (string, error) { return "ok", nil }
	call := adapter.ToolCall{Tool: "search", Input: []byte(`{"q":"x"}`)}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := adapter.Do(wd.Context(), g, call, bare, nil); err != nil {
			b.Fatal(err)
		}
	}
}
