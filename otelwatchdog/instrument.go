package otelwatchdog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed62658d38/watchdog"
)

// scope is the name under which everything is told.
const scope = "github.com/seed62658d38/watchdog/otelwatchdog"

// A Config says whom an [Instrument] tells.
type Config struct {
	// MeterProvider gets the metrics. Nil means the global one, see [otel.GetMeterProvider], also where the host sets that later.
	MeterProvider metric.MeterProvider
	// TracerProvider gets the spans. Nil means the global one, see [otel.GetTracerProvider].
	TracerProvider trace.TracerProvider
}

// An Instrument tells OpenTelemetry of all runs of a process. Make one with [New], for the life of the process; it holds no goroutine and needs no end. All methods
// are safe for concurrent use.
type Instrument struct {
	tracer  trace.Tracer
	metrics metrics
	passes  passes
	calls   calls
	reasons reasons
}

// New makes the instrument. The error joins those of the meter provider, which refused a metric.
func New(cfg Config) (*Instrument, error) {
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	i := &Instrument{tracer: cfg.TracerProvider.Tracer(scope)}
	meter := cfg.MeterProvider.Meter(scope)
	var errs [3]error
	i.metrics, errs[0] = newMetrics(meter)
	i.passes, errs[1] = newPasses(meter)
	errs[2] = i.calls.register(meter)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make the metrics of the watchdog: %w", err)
	}
	return i, nil
}

// Attach is [watchdog.New] for a run that is measured. Its errors are those of New; nothing is told of a run that is not guarded.
func (i *Instrument) Attach(ctx context.Context, run watchdog.Run, cfg watchdog.Config) (*Watchdog, error) {
	return i.attach(ctx, run, cfg, watchdog.New)
}

// Resume is [watchdog.Resume] for a run that is measured. Its errors are those of Resume.
func (i *Instrument) Resume(ctx context.Context, run watchdog.Run, cfg watchdog.Config) (*Watchdog, error) {
	return i.attach(ctx, run, cfg, watchdog.Resume)
}

func (i *Instrument) attach(
	ctx context.Context, run watchdog.Run, cfg watchdog.Config,
	how func(context.Context, watchdog.Run, watchdog.Config) (*watchdog.Watchdog, error),
) (*Watchdog, error) {
	began, at := time.Now(), time.Now()
	if cfg.Clock != nil {
		at = cfg.Clock.Now()
	}
	wd, err := how(ctx, run, cfg)
	if err != nil {
		return nil, err
	}
	return i.watch(ctx, wd.Context(), wd, began, at), nil
}
