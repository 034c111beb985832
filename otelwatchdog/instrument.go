package otelwatchdog

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed62658d38/watchdog"
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
	i := &Instrument{
		tracer:  cfg.TracerProvider.Tracer(scope),
		spend:   spend{live: map[*watchdog.Watchdog]bool{}, ended: map[series]int64{}},
		reasons: reasons{met: map[watchdog.StopReason]struct{}{}},
	}
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
	return watchdog.WithObserver(ctx, func(ctx context.Context, wd *watchdog.Watchdog) (ended func()) {
		run := trace.ContextWithSpan(wd.Context(), trace.SpanFromContext(ctx))
		return i.watch(ctx, run, wd, time.Now(), wd.StartedAt()).awaitFinish
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

// A Watchdog is a [watchdog.Watchdog] whose run is measured. Pass the field to functions that take that type. All
// methods are safe for concurrent use.
type Watchdog struct {
	*watchdog.Watchdog

	instrument *Instrument
	parent     context.Context
	ctx        context.Context
	span       trace.Span
	attached   time.Time     // by the run's clock
	finished   chan struct{} // closed when the span has ended
}

// watch measures a run that was attached in the context parent, at began by the machine's clock and at attached by the
// run's. It begins the span in ctx, the run's context.
func (i *Instrument) watch(parent, ctx context.Context, wd *watchdog.Watchdog, began, attached time.Time) *Watchdog {
	ctx, span := i.tracer.Start(i.Commands(ctx), spanName,
		trace.WithTimestamp(began), trace.WithAttributes(identity(wd)...))
	w := &Watchdog{
		Watchdog: wd, instrument: i, parent: parent, ctx: ctx, span: span,
		attached: attached.Truncate(time.Microsecond), // like the time of a stop
		finished: make(chan struct{}),
	}
	i.metrics.live(w.layer(), 1)
	i.spend.begin(wd, w.layer())
	wd.Subscribe(w.onDirective)
	context.AfterFunc(wd.Context(), w.finish)
	return w
}

// Context is [watchdog.Watchdog.Context] with the run's span, which becomes the parent of spans in the run. The context
// of the field has no such span.
func (w *Watchdog) Context() context.Context { return w.ctx }

// Layer is [watchdog.Watchdog.Layer] for a measured layer; its span is a child of this run's. It returns the errors of
// Layer.
func (w *Watchdog) Layer(name string, budget watchdog.Budget) (*Watchdog, error) {
	began := time.Now()
	layer, err := w.Watchdog.Layer(name, budget)
	if err != nil {
		return nil, err
	}
	return w.instrument.watch(w.ctx, trace.ContextWithSpan(layer.Context(), w.span), layer, began, layer.StartedAt()),
		nil
}

// Close is [watchdog.Watchdog.Close]. It also waits for the end of the run's span, at most
// [watchdog.DefaultRecordTimeout]: after Close a host can shut down its tracer provider. Called by a span processor, in
// OnEnd, it does not wait for that.
func (w *Watchdog) Close() error {
	err := w.Watchdog.Close()
	w.awaitFinish()
	return err
}

// awaitFinish waits until the span of a run that has ended has ended, too.
func (w *Watchdog) awaitFinish() {
	select {
	case <-w.finished:
		return
	default:
	}
	if isFinishing() { // what is waited for may be this goroutine, or one that waits for it
		return
	}
	timeout := time.NewTimer(watchdog.DefaultRecordTimeout)
	defer timeout.Stop()
	select {
	case <-w.finished:
	case <-timeout.C:
	}
}

// isFinishing reports whether the caller was called by a span processor, at the end of a run's span.
func isFinishing() bool {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for frame, more := frames.Next(); more; frame, more = frames.Next() {
		if frame.Function == scope+".(*Watchdog).finish" {
			return true
		}
	}
	return false
}

// onDirective records a directive. It skips a cancel: finish records the stop, also of a run that was stopped before.
func (w *Watchdog) onDirective(d watchdog.Directive) {
	if d.Kind != watchdog.DirectiveCancel || d.ObserveOnly {
		w.trip(d)
	}
}

// finish records the end of the run, on the goroutine that its context's end has begun. A span processor of the host
// that panics must not end the process from there.
func (w *Watchdog) finish() {
	defer close(w.finished)
	defer func() {
		if p := recover(); p != nil {
			otel.Handle(fmt.Errorf("end the span of run %s: a span processor panicked with a %T", w.ID(), p))
		}
	}()
	w.instrument.metrics.live(w.layer(), -1)
	w.instrument.spend.end(w.Watchdog)
	stop, end := w.end()
	if stop != nil {
		w.span.SetStatus(codes.Error, string(stop.Code))
		w.span.SetAttributes(reasonKey.String(string(stop.Code)))
	}
	if stop != nil && !stop.FiredAt.Before(w.attached) {
		w.trip(watchdog.Directive{
			Kind: watchdog.DirectiveCancel, Reason: stop.Code, Rung: stop.Rung,
			Used: stop.Elapsed, Allowed: stop.Budget, Usage: stop.Usage, At: stop.FiredAt,
		})
	}
	w.span.SetAttributes(endKey.String(end))
	w.span.End()
}

// end returns how the run ended, and its stop if it was its own: a layer can also end with the stop of the run around
// it.
func (w *Watchdog) end() (*watchdog.Stop, string) {
	cause := context.Cause(w.ctx)
	var stop *watchdog.Stop
	var interruption *watchdog.Interruption
	switch {
	case errors.As(cause, &stop) && stop.RunID == w.ID():
		return stop, "stopped"
	case errors.As(cause, &interruption) && interruption.RunID == w.ID():
		return nil, "interrupted"
	case errors.Is(cause, watchdog.ErrClosed) && !errors.Is(context.Cause(w.parent), watchdog.ErrClosed):
		return nil, "closed"
	}
	return nil, "parent"
}

func (w *Watchdog) trip(d watchdog.Directive) {
	attributes := w.instrument.tripAttributes(d, w.layer())
	w.instrument.metrics.trip(w.ctx, d, attributes) // the context has the span for exemplars
	if w.span.IsRecording() {
		w.span.AddEvent(eventName, trace.WithTimestamp(d.At), trace.WithAttributes(append(attributes, usage(d)...)...))
	}
}

func (w *Watchdog) layer() bool { return w.Parent() != "" }
