package adapter_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/internal/adapter"
)

func benchRun(b *testing.B) *watchdog.Watchdog {
	b.Helper()
	wd, err := watchdog.New(b.Context(), watchdog.Run{}, watchdog.Config{Budget: watchdog.Budget{Idle: time.Hour}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, wd.Close()) })
	return wd
}

func bare(context.Context) (string, error) { return "ok", nil }

// BenchmarkTool is a call of a tool with its hold, its layer and its step, in a run that is kept in memory.
func BenchmarkTool(b *testing.B) {
	wd, call := benchRun(b), search(`{"q":"x"}`)
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

// BenchmarkToolStage is what a call of a tool is made of, and what it costs by hand to give up on one.
func BenchmarkToolStage(b *testing.B) {
	wd := benchRun(b)
	ctx, used := wd.Context(), watchdog.Amount{ToolCalls: 1, Tool: "search"}
	budget := watchdog.Budget{WallClock: time.Hour, WarnAt: []float64{}}
	for _, stage := range []struct {
		name string
		do   func() error
	}{
		{"a goroutine and a timeout by hand", func() error {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			go func() { _, _ = bare(ctx); cancel() }()
			<-ctx.Done()
			return nil
		}},
		{"bound.Do", func() error { return bound.Do(ctx, bound.Call{}, bare).Err }},
		{"admit and settle", func() error {
			charge, err := wd.Admit(ctx, "", used)
			_ = charge.Settle(used)
			return err
		}},
		{"hold", func() error {
			hold, err := wd.Hold(context.Background(), "search-1", watchdog.HoldLimit{Cap: watchdog.NoLimit})
			hold.Close()
			return err
		}},
		{"layer", func() error {
			layer, err := wd.Layer("search-1", budget)
			_ = layer.Close()
			return err
		}},
	} {
		b.Run(stage.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := stage.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAlive is a piece of a streamed answer.
func BenchmarkAlive(b *testing.B) {
	call, _, err := adapter.New(adapter.Config{}).Model(benchRun(b).Context(), adapter.ModelRequest{})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		call.Alive()
	}
}
