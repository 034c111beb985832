package otelwatchdog_test

import (
	"context"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/otelwatchdog"
)

const minute = time.Minute

// quiet is the logger of tests that stop runs on purpose.
var quiet = slog.New(slog.DiscardHandler)

// A fixture has an instrument, with a store for its runs and exporters that keep everything.
type fixture struct {
	t          testing.TB
	store      *watchdog.Memory
	reader     *sdkmetric.ManualReader
	meters     *sdkmetric.MeterProvider
	exporter   *tracetest.InMemoryExporter
	tracers    *trace.TracerProvider
	instrument *otelwatchdog.Instrument
}

// inBubble runs the test in a bubble with fake time.
func inBubble(t *testing.T, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newFixture(t)) })
}

// bubble runs a subtest in a bubble.
func bubble(t *testing.T, name string, test func(f *fixture)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inBubble(t, test) })
}

func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	f := &fixture{
		t: tb, store: &watchdog.Memory{}, reader: sdkmetric.NewManualReader(), exporter: tracetest.NewInMemoryExporter(),
	}
	f.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(f.reader))
	f.tracers = trace.NewTracerProvider(trace.WithSyncer(f.exporter))
	instrument, err := otelwatchdog.New(otelwatchdog.Config{MeterProvider: f.meters, TracerProvider: f.tracers})
	require.NoError(tb, err)
	f.instrument = instrument
	return f
}

// attach begins a run and closes it at the end of the test.
func (f *fixture) attach(cfg watchdog.Config) *otelwatchdog.Watchdog {
	f.t.Helper()
	return f.attachIn(context.Background(), "s-1", cfg)
}

func (f *fixture) attachIn(ctx context.Context, id string, cfg watchdog.Config) *otelwatchdog.Watchdog {
	f.t.Helper()
	cfg.Logger = quiet
	if cfg.Store == nil {
		cfg.Store = f.store
	}
	start := time.Now()
	if cfg.Clock != nil {
		start = cfg.Clock.Now()
	}
	wd, err := f.instrument.Attach(ctx, watchdog.Run{ID: id, StartedAt: start}, cfg)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { wd.Close() })
	return wd
}

// after waits for a time and for everything that happens by then.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// metrics returns all exported metrics by name.
func (f *fixture) metrics() map[string]metricdata.Metrics {
	f.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(f.t, f.reader.Collect(context.Background(), &all))
	found := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			found[m.Name] = m
		}
	}
	return found
}

// count returns the sum of a counter or gauge over the points with these attributes.
func (f *fixture) count(name string, attributes ...attribute.KeyValue) (n int64) {
	f.t.Helper()
	for _, point := range f.points(name) {
		if has(point.Attributes, attributes) {
			n += point.Value
		}
	}
	return n
}

// points returns the points of a counter or gauge.
func (f *fixture) points(name string) []metricdata.DataPoint[int64] {
	f.t.Helper()
	switch data := f.metrics()[name].Data.(type) {
	case metricdata.Sum[int64]:
		return data.DataPoints
	case metricdata.Gauge[int64]:
		return data.DataPoints
	}
	return nil
}

// latenesses returns the number of lateness measurements and their sum.
func (f *fixture) latenesses(attributes ...attribute.KeyValue) (n uint64, sum float64) {
	f.t.Helper()
	if histogram, ok := f.metrics()["watchdog.lateness.ms"].Data.(metricdata.Histogram[float64]); ok {
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

// spans returns the spans that have ended, in that order.
func (f *fixture) spans() tracetest.SpanStubs { return f.exporter.GetSpans() }

// attributeOf returns an attribute of a span as text.
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

// laddered is a run with a retry before its idle limit cancels it.
var laddered = watchdog.Config{Budget: watchdog.Budget{
	Idle: 10 * minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry}},
}}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDocumented looks up every metric and attribute in the package comment, and those of the alert rules here.
func TestDocumented(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	tour := strings.Join(strings.Fields(string(source)), " ")
	golden, err := os.ReadFile("testdata/metrics.tsv")
	require.NoError(t, err)
	for line := range strings.Lines(string(golden)) {
		columns := strings.Split(line, "\t") // name, kind, unit, attributes
		require.Contains(t, tour, strings.Join(columns[:3], " "))
		for key := range strings.FieldsSeq(columns[3]) {
			require.Contains(t, tour, key)
		}
	}
	alerts, err := os.ReadFile("../docs/operations-alerts.md")
	require.NoError(t, err)
	rules := regexp.MustCompile(`(?m)^ +expr: .*$`).FindAllString(string(alerts), -1)
	require.NotEmpty(t, rules)
	exported := strings.Fields(strings.ReplaceAll(string(golden), ".", "_"))
	for _, name := range regexp.MustCompile(`watchdog_\w+`).FindAllString(strings.Join(rules, "\n"), -1) {
		if counter, is := strings.CutSuffix(name, "_total"); !is || !slices.Contains(exported, counter) {
			require.Contains(t, exported, name)
		}
	}
	spans, err := os.ReadFile("testdata/spans.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(spans)) {
		require.Contains(t, tour, strings.Fields(line)[0])
	}
}
