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
	"github.com/seed62658d38/watchdog/internal/handle"
)

// scope is the instrumentation scope of all metrics and spans.
const scope = "github.com/seed62658d38/watchdog/otelwatchdog"

// A Config has the providers of an [Instrument].
type Config struct {
	// MeterProvider gets the metrics. Nil means the global one, also if the host sets it later; see
	// [otel.GetMeterProvider].
	MeterProvider metric.MeterProvider
	// TracerProvider gets the spans. Nil means the global one; see [otel.GetTracerProvider].
	TracerProvider trace.TracerProvider
}

// An Instrument measures all runs of a process. Make one with [New] for the life of the process: it has no goroutine
// and need not be closed. All methods are safe for concurrent use.
type Instrument struct {
	tracer  trace.Tracer
	metrics metrics
	passes  passes
	calls   calls
	spend   spend
	reasons reasons
}

// New makes an instrument. It joins the errors of a meter provider that refuses metrics.
func New(cfg Config) (*Instrument, error) {
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	i := &Instrument{tracer: cfg.TracerProvider.Tracer(scope)}
	meter := cfg.MeterProvider.Meter(scope)
	var errs [4]error
	i.metrics, errs[0] = newMetrics(meter)
	i.passes, errs[1] = newPasses(meter)
	errs[2] = i.calls.register(meter)
	errs[3] = i.spend.register(meter)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make the metrics of the watchdog: %w", err)
	}
	return i, nil
}

// Attach is [watchdog.New] for a measured run. It returns the errors of New; after an error it exports nothing.
func (i *Instrument) Attach(ctx context.Context, run watchdog.Run, cfg watchdog.Config) (*Watchdog, error) {
	return i.attach(ctx, run, cfg, watchdog.New)
}

// Resume is [watchdog.Resume] for a measured run. It returns the errors of Resume.
func (i *Instrument) Resume(ctx context.Context, run watchdog.Run, cfg watchdog.Config) (*Watchdog, error) {
	return i.attach(ctx, run, cfg, watchdog.Resume)
}

// Commands returns a context in which the run of each command of [stall.Run] is measured like any other. The context of
// a measured run is one already: Commands is for a command that is a run of its own.
func (i *Instrument) Commands(ctx context.Context) context.Context {
	return handle.WithObserver(ctx, func(ctx, run context.Context) (ended func()) {
		began, wd := time.Now(), watchdog.FromContext(run)
		return i.watch(ctx, trace.ContextWithSpan(run, trace.SpanFromContext(ctx)), wd, began, wd.StartedAt()).awaitFinish
	})
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
