package otelwatchdog_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/otelwatchdog"
)

// BenchmarkRun measures a run from its attach to its close: without an instrument, with providers that do nothing, with
// metrics, and with metrics and spans.
func BenchmarkRun(b *testing.B) {
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	for _, variant := range []struct {
		name string
		cfg  *otelwatchdog.Config
	}{
		{"unmeasured", nil},
		{"noop", &otelwatchdog.Config{
			MeterProvider: noop.NewMeterProvider(), TracerProvider: tracenoop.NewTracerProvider(),
		}},
		{"metrics", &otelwatchdog.Config{MeterProvider: meters, TracerProvider: tracenoop.NewTracerProvider()}},
		{"metrics and spans", &otelwatchdog.Config{MeterProvider: meters, TracerProvider: trace.NewTracerProvider()}},
	} {
		b.Run(variant.name, func(b *testing.B) {
			attach := unmeasured
			if variant.cfg != nil {
				instrument, err := otelwatchdog.New(*variant.cfg)
				require.NoError(b, err)
				attach = func(ctx context.Context, run watchdog.Run, cfg watchdog.Config) (closer, error) {
					return instrument.Attach(ctx, run, cfg)
				}
			}
			benchmarkRuns(b, attach)
		})
	}
}

type closer interface{ Close() error }

func unmeasured(ctx context.Context, run watchdog.Run, cfg watchdog.Config) (closer, error) {
	return watchdog.New(ctx, run, cfg)
}

func benchmarkRuns(b *testing.B, attach func(context.Context, watchdog.Run, watchdog.Config) (closer, error)) {
	b.Helper()
	b.ReportAllocs()
	cfg, started := watchdog.Config{Store: &watchdog.Memory{}, Logger: quiet}, time.Now()
	for n := 0; b.Loop(); n++ {
		wd, err := attach(b.Context(), watchdog.Run{ID: "s-" + strconv.Itoa(n), StartedAt: started}, cfg)
		if err != nil {
			b.Fatal(err)
		}
		wd.Close()
	}
}

// BenchmarkActivity measures a signal of a run with an instrument. It costs the same as without one.
func BenchmarkActivity(b *testing.B) {
	wd := newFixture(b).attach(laddered)
	b.ReportAllocs()
	for b.Loop() {
		wd.Activity()
	}
}
