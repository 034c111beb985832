package otelwatchdog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed62658d38/watchdog"
)

// A Watchdog is a [watchdog.Watchdog] whose run is measured. What takes that one is given the field. All methods are safe for concurrent use.
type Watchdog struct {
	*watchdog.Watchdog

	instrument *Instrument
	parent     context.Context
	ctx        context.Context
	span       trace.Span
	attached   time.Time // by the run's clock
	finished   sync.Once
}

// watch measures a run that was attached in the parent context, from when that began, by the machine's clock and by the run's. Its span is begun in ctx, which is the run's.
func (i *Instrument) watch(parent, ctx context.Context, wd *watchdog.Watchdog, began, attached time.Time) *Watchdog {
	ctx, span := i.tracer.Start(ctx, spanName, trace.WithTimestamp(began), trace.WithAttributes(identity(wd)...))
	w := &Watchdog{
		Watchdog: wd, instrument: i, parent: parent, ctx: ctx, span: span,
		attached: attached.Truncate(time.Microsecond), // as a stop's time is
	}
	i.metrics.live(w.layer(), 1)
	wd.Subscribe(w.heed)
	context.AfterFunc(wd.Context(), w.finish)
	return w
}

// Context is [watchdog.Watchdog.Context] with the run's span in it, as the parent of what is done in the run. That of the field has no such span.
func (w *Watchdog) Context() context.Context { return w.ctx }

// Layer is [watchdog.Watchdog.Layer] for a layer that is measured; its span is a child of this run's. Its errors are those of Layer.
func (w *Watchdog) Layer(name string, budget watchdog.Budget) (*Watchdog, error) {
	began := time.Now()
	layer, err := w.Watchdog.Layer(name, budget)
	if err != nil {
		return nil, err
	}
	return w.instrument.watch(w.ctx, trace.ContextWithSpan(layer.Context(), w.span), layer, began, layer.StartedAt()), nil
}

// Close is [watchdog.Watchdog.Close]. When it returns the run's span has ended, so that a host can shut down its tracer provider next.
func (w *Watchdog) Close() error {
	err := w.Watchdog.Close()
	w.finish()
	return err
}

// heed takes a directive. That of a stop is told by the end of the run, which knows as much and comes also to runs that are stopped already.
func (w *Watchdog) heed(d watchdog.Directive) {
	if d.Kind != watchdog.DirectiveCancel || d.ObserveOnly {
		w.trip(d)
	}
}

// finish tells of the end of the run, once. Whoever else calls it waits until that was told. A processor of the host's spans that panics must not end the process from
// a goroutine that is not the host's.
func (w *Watchdog) finish() {
	w.finished.Do(func() {
		defer func() {
			if p := recover(); p != nil {
				otel.Handle(fmt.Errorf("end the span of run %s: a span processor panicked with a %T", w.ID(), p))
			}
		}()
		w.instrument.metrics.live(w.layer(), -1)
		stop, end := w.end()
		if stop != nil {
			w.span.SetStatus(codes.Error, string(stop.Code))
			w.span.SetAttributes(reasonKey.String(string(stop.Code)))
		}
		if stop != nil && !stop.FiredAt.Before(w.attached) {
			w.trip(watchdog.Directive{
				Kind: watchdog.DirectiveCancel, Reason: stop.Code, Rung: stop.Rung, Used: stop.Elapsed, Allowed: stop.Budget, At: stop.FiredAt,
			})
		}
		w.span.SetAttributes(endKey.String(end))
		w.span.End()
	})
}

// end is how the run ended, and its stop where that was one of its own: a layer ends with the stop of the run around it as well.
func (w *Watchdog) end() (*watchdog.Stop, string) {
	cause := context.Cause(w.ctx)
	var stop *watchdog.Stop
	var interruption *watchdog.Interruption
	switch {
	case errors.As(cause, &stop) && stop.RunID == w.ID():
		return stop, endStopped
	case errors.As(cause, &interruption) && interruption.RunID == w.ID():
		return nil, endInterrupted
	case errors.Is(cause, watchdog.ErrClosed) && !errors.Is(context.Cause(w.parent), watchdog.ErrClosed):
		return nil, endClosed
	}
	return nil, endParent
}

// trip tells of a trip.
func (w *Watchdog) trip(d watchdog.Directive) {
	attributes := w.instrument.tripAttributes(d, w.layer())
	w.instrument.metrics.trip(w.ctx, d, attributes) // its span is for exemplars
	if w.span.IsRecording() {
		w.span.AddEvent(eventName, trace.WithTimestamp(d.At), trace.WithAttributes(append(attributes, usage(d)...)...))
	}
}

func (w *Watchdog) layer() bool { return w.Parent() != "" }
