package otelwatchdog_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/otelwatchdog"
)

const minute = time.Minute

// quiet is the log of tests that stop runs on purpose.
var quiet = slog.New(slog.DiscardHandler)

// A bed is what a test of an instrument lies in: a store, and all that the instrument tells.
type bed struct {
	t          testing.TB
	store      *watchdog.Memory
	reader     *sdkmetric.ManualReader
	meters     *sdkmetric.MeterProvider
	exporter   *tracetest.InMemoryExporter
	tracers    *trace.TracerProvider
	instrument *otelwatchdog.Instrument
}

// inBed runs the test in a bubble, in which time passes only while everyone waits for it.
func inBed(t *testing.T, test func(b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newBed(t)) })
}

func newBed(tb testing.TB) *bed {
	tb.Helper()
	b := &bed{t: tb, store: &watchdog.Memory{}, reader: sdkmetric.NewManualReader(), exporter: tracetest.NewInMemoryExporter()}
	b.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.reader))
	b.tracers = trace.NewTracerProvider(trace.WithSyncer(b.exporter))
	instrument, err := otelwatchdog.New(otelwatchdog.Config{MeterProvider: b.meters, TracerProvider: b.tracers})
	require.NoError(tb, err)
	b.instrument = instrument
	return b
}

// attach begins a run that the test's end closes.
func (b *bed) attach(cfg watchdog.Config) *otelwatchdog.Watchdog {
	b.t.Helper()
	return b.attachIn(context.Background(), "s-1", cfg)
}

func (b *bed) attachIn(ctx context.Context, id string, cfg watchdog.Config) *otelwatchdog.Watchdog {
	b.t.Helper()
	cfg.Logger = quiet
	if cfg.Store == nil {
		cfg.Store = b.store
	}
	start := time.Now()
	if cfg.Clock != nil {
		start = cfg.Clock.Now()
	}
	wd, err := b.instrument.Attach(ctx, watchdog.Run{ID: id, StartedAt: start}, cfg)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { wd.Close() })
	return wd
}

// after lets time pass and everything happen that it sets off.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// metrics are all that are exported, by name.
func (b *bed) metrics() map[string]metricdata.Metrics {
	b.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(b.t, b.reader.Collect(context.Background(), &all))
	found := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			found[m.Name] = m
		}
	}
	return found
}

// count is the value of a counter or gauge where it has the attributes.
func (b *bed) count(name string, attributes ...attribute.KeyValue) (n int64) {
	b.t.Helper()
	if sum, ok := b.metrics()[name].Data.(metricdata.Sum[int64]); ok {
		for _, point := range sum.DataPoints {
			if has(point.Attributes, attributes) {
				n += point.Value
			}
		}
	}
	return n
}

// latenesses are how often trips were timed, and the sum of how late they were.
func (b *bed) latenesses(attributes ...attribute.KeyValue) (n uint64, sum float64) {
	b.t.Helper()
	if histogram, ok := b.metrics()["watchdog.lateness.ms"].Data.(metricdata.Histogram[float64]); ok {
		for _, point := range histogram.DataPoints {
			if has(point.Attributes, attributes) {
				n, sum = n+point.Count, sum+point.Sum
			}
		}
	}
	return n, sum
}

func has(set attribute.Set, attributes []attribute.KeyValue) bool {
	for _, a := range attributes {
		if value, ok := set.Value(a.Key); !ok || value != a.Value {
			return false
		}
	}
	return true
}

// spans are those that have ended, in that order.
func (b *bed) spans() tracetest.SpanStubs { return b.exporter.GetSpans() }

// attributeOf is an attribute of a span, as text.
func attributeOf(span tracetest.SpanStub, key attribute.Key) string {
	for _, a := range span.Attributes {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

func reason(code watchdog.StopReason) attribute.KeyValue {
	return attribute.String("watchdog.reason", string(code))
}

func directive(kind watchdog.DirectiveKind) attribute.KeyValue {
	return attribute.String("watchdog.directive", string(kind))
}

// laddered is a run that is asked to retry before it is cancelled for its silence.
var laddered = watchdog.Config{Budget: watchdog.Budget{
	Idle: 10 * minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry}},
}}
