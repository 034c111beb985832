package otelwatchdog_test

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

var errRefused = errors.New("refused")

// refusingProvider is a meter provider that refuses one metric.
type refusingProvider struct {
	noop.MeterProvider
	name string
}

// refusingMeter is its meter.
type refusingMeter struct {
	noop.Meter
	name string
}

func (r *refusingProvider) Meter(string, ...metric.MeterOption) metric.Meter {
	return &refusingMeter{name: r.name}
}

func (r *refusingMeter) refuse(name string) error {
	if name == r.name {
		return errRefused
	}
	return nil
}

func (r *refusingMeter) Int64UpDownCounter(
	name string, _ ...metric.Int64UpDownCounterOption,
) (metric.Int64UpDownCounter, error) {
	return noop.Int64UpDownCounter{}, r.refuse(name)
}

func (r *refusingMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return noop.Int64Counter{}, r.refuse(name)
}

func (r *refusingMeter) Float64Histogram(
	name string, _ ...metric.Float64HistogramOption,
) (metric.Float64Histogram, error) {
	return noop.Float64Histogram{}, r.refuse(name)
}

func (r *refusingMeter) Int64Gauge(name string, _ ...metric.Int64GaugeOption) (metric.Int64Gauge, error) {
	return noop.Int64Gauge{}, r.refuse(name)
}

func (r *refusingMeter) Int64ObservableCounter(
	name string, _ ...metric.Int64ObservableCounterOption,
) (metric.Int64ObservableCounter, error) {
	return noop.Int64ObservableCounter{}, r.refuse(name)
}

func (r *refusingMeter) Int64ObservableUpDownCounter(
	name string, _ ...metric.Int64ObservableUpDownCounterOption,
) (metric.Int64ObservableUpDownCounter, error) {
	return noop.Int64ObservableUpDownCounter{}, r.refuse(name)
}

func (r *refusingMeter) Int64ObservableGauge(
	name string, _ ...metric.Int64ObservableGaugeOption,
) (metric.Int64ObservableGauge, error) {
	return noop.Int64ObservableGauge{}, r.refuse(name)
}

func (r *refusingMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return noop.Registration{}, r.refuse("callback")
}
