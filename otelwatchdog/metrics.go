package otelwatchdog

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed62658d38/watchdog"
)

// latenesses are the bounds of the lateness histogram in milliseconds, from a timer to a process that was down for a
// day.
var latenesses = []float64{
	1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000,
}

// metrics measures the live watchdogs.
type metrics struct {
	runs     metric.Int64UpDownCounter
	trips    metric.Int64Counter
	lateness metric.Float64Histogram
	// own and layer are the attributes of runs and of layers, made once.
	own, layer []metric.AddOption
}

func newMetrics(meter metric.Meter) (m metrics, err error) {
	var errs [3]error
	m.runs, errs[0] = meter.Int64UpDownCounter("watchdog.runs.live",
		metric.WithUnit("{run}"), metric.WithDescription("Runs that are guarded and have not ended."))
	m.trips, errs[1] = meter.Int64Counter("watchdog.trips.total",
		metric.WithUnit("{trip}"), metric.WithDescription("Trips of limits, and cancels of other guards."))
	m.lateness, errs[2] = meter.Float64Histogram("watchdog.lateness.ms",
		metric.WithUnit("ms"), metric.WithDescription("How much later than its limit a trip was found."),
		metric.WithExplicitBucketBoundaries(latenesses...))
	m.own = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(layerKey.Bool(false)))}
	m.layer = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(layerKey.Bool(true)))}
	return m, errors.Join(errs[:]...)
}

// live adds n to the number of live runs.
func (m *metrics) live(layer bool, n int64) {
	attributes := m.own
	if layer {
		attributes = m.layer
	}
	m.runs.Add(context.Background(), n, attributes...)
}

// trip counts a trip and its lateness. A cancel of a guard without a limit has no lateness. It sorts the attributes.
func (m *metrics) trip(ctx context.Context, d watchdog.Directive, attributes []attribute.KeyValue) {
	set := metric.WithAttributeSet(attribute.NewSet(attributes...))
	m.trips.Add(ctx, 1, set)
	if d.Allowed > 0 {
		m.lateness.Record(ctx, max(milliseconds(d.Used-d.Allowed), 0), set)
	}
}
