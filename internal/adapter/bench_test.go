package adapter_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/adapter"
)

func bare(context.Context) (string, error) { return "ok", nil }

// BenchmarkTool is a call of a tool with its hold, its layer and its step, in a run that is kept in memory.
func BenchmarkTool(b *testing.B) {
	wd, call := newRun(b, watchdog.Budget{Idle: time.Hour}), search(`{"q":"x"}`)
	var g *adapter.Guard
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%64 == 0 { // as many steps wait for the next call of the model
			g = adapter.New(adapter.Config{})
		}
		if _, _, err := adapter.Do(wd.Context(), g, call, bare, nil); err != nil {
			b.Fatal(err)
		}
	}
}
