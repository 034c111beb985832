package otelwatchdog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/otelwatchdog"
)

// ends are the ways in which a run ends, and what its span says of each.
var ends = map[string]struct {
	how  func(wd *otelwatchdog.Watchdog, cancelParent func())
	says string
}{
	"closed":                    {func(wd *otelwatchdog.Watchdog, _ func()) { wd.Close() }, "closed"},
	"closed without its spans":  {func(wd *otelwatchdog.Watchdog, _ func()) { wd.Watchdog.Close() }, "closed"},
	"stopped by a limit":        {func(*otelwatchdog.Watchdog, func()) { after(20*minute + 2) }, "stopped"},
	"cancelled by a guard":      {func(wd *otelwatchdog.Watchdog, _ func()) { _, _ = wd.Cancel(watchdog.Cancellation{Reason: "host"}) }, "stopped"},
	"interrupted":               {func(wd *otelwatchdog.Watchdog, _ func()) { _ = wd.Interrupt("SIGINT") }, "interrupted"},
	"ended by its parent":       {func(_ *otelwatchdog.Watchdog, cancelParent func()) { cancelParent() }, "parent"},
	"closed after its parent":   {func(wd *otelwatchdog.Watchdog, cancelParent func()) { cancelParent(); wd.Close() }, "parent"},
	"stopped, and then closed":  {func(wd *otelwatchdog.Watchdog, _ func()) { after(20*minute + 2); wd.Close() }, "stopped"},
	"interrupted after its end": {func(wd *otelwatchdog.Watchdog, _ func()) { wd.Close(); _ = wd.Interrupt("SIGINT") }, "closed"},
}

func TestSpan(t *testing.T) {
	t.Run("it ends with the run, once, and says how", func(t *testing.T) {
		for name, end := range ends {
			t.Run(name, func(t *testing.T) {
				inBed(t, func(b *bed) {
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					wd := b.attachIn(ctx, "s-1", laddered)
					require.Empty(t, b.spans())
					end.how(wd, cancel)
					synctest.Wait()
					require.NoError(t, wd.Close())
					require.Len(t, b.spans(), 1)
					span := b.spans()[0]
					require.Equal(t, end.says, attributeOf(span, "watchdog.run.end"))
					require.Equal(t, end.says == "stopped", span.Status.Code == codes.Error)
					require.Equal(t, end.says == "stopped", attributeOf(span, "watchdog.reason") != "")
				})
			})
		}
	})
	t.Run("it has ended when Close returns", func(t *testing.T) {
		for range 50 {
			b := newBed(t)
			require.NoError(t, b.attach(laddered).Close())
			require.Len(t, b.spans(), 1)
		}
	})
	t.Run("a stuck host's ends at the limit", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.attach(watchdog.Config{Budget: watchdog.Budget{WallClock: minute}}) // and nobody asks it anything
			after(minute + 1)
			require.Len(t, b.spans(), 1)
			require.InDelta(t, minute, b.spans()[0].EndTime.Sub(b.spans()[0].StartTime), float64(time.Microsecond))
		})
	})
	t.Run("what is done in the run is its child, and it is the child of what attached it", func(t *testing.T) {
		inBed(t, func(b *bed) {
			tracer := b.tracers.Tracer("host")
			ctx, outer := tracer.Start(context.Background(), "request")
			wd := b.attachIn(ctx, "s-1", laddered)
			layer, err := wd.Layer("step", watchdog.Budget{})
			require.NoError(t, err)
			_, work := tracer.Start(layer.Context(), "work")
			work.End()
			require.NoError(t, layer.Close())
			require.NoError(t, wd.Close())
			outer.End()
			require.Equal(t, []string{"work", "watchdog.run", "watchdog.run", "request"}, names(b.spans()))
			for n, span := range b.spans()[:3] {
				require.Equal(t, b.spans()[n+1].SpanContext.SpanID(), span.Parent.SpanID())
			}
		})
	})
	t.Run("the watchdog is found in the run's context", func(t *testing.T) {
		inBed(t, func(b *bed) {
			wd := b.attach(laddered)
			require.Same(t, wd.Watchdog, watchdog.FromContext(wd.Context()))
			require.NoError(t, wd.Close())
			require.ErrorIs(t, context.Cause(wd.Context()), watchdog.ErrClosed)
		})
	})
	t.Run("a layer that its run ends with says that", func(t *testing.T) {
		for _, how := range []func(wd *otelwatchdog.Watchdog){
			func(wd *otelwatchdog.Watchdog) { wd.Close() },
			func(wd *otelwatchdog.Watchdog) { _, _ = wd.Cancel(watchdog.Cancellation{Reason: "host"}) },
			func(wd *otelwatchdog.Watchdog) { _ = wd.Interrupt("SIGINT") },
		} {
			inBed(t, func(b *bed) {
				wd := b.attach(laddered)
				layer, err := wd.Layer("step", watchdog.Budget{})
				require.NoError(t, err)
				how(wd)
				synctest.Wait()
				require.NoError(t, layer.Close())
				i := slices.IndexFunc(b.spans(), func(s tracetest.SpanStub) bool { return attributeOf(s, "watchdog.run.parent") == "s-1" })
				require.Equal(t, "parent", attributeOf(b.spans()[i], "watchdog.run.end"))
				require.Equal(t, codes.Unset, b.spans()[i].Status.Code)
				require.Equal(t, "s-1/step", attributeOf(b.spans()[i], "watchdog.run.id"))
			})
		}
	})
	t.Run("it begins where the attach does, and a trip is when it was found, however slow the store is", func(t *testing.T) {
		inBed(t, func(b *bed) {
			cfg, began := laddered, time.Now()
			cfg.Store = &slow{EventStore: b.store}
			wd := b.attach(cfg)
			require.Equal(t, 2*time.Second, time.Since(began))
			after(11 * minute)
			require.NoError(t, wd.Close())
			span := b.spans()[0]
			require.True(t, began.Equal(span.StartTime))
			require.Len(t, span.Events, 1)
			require.InDelta(t, 10*minute, span.Events[0].Time.Sub(began), float64(time.Microsecond))
		})
	})
	t.Run("a processor that panics is reported, and the process goes on", func(t *testing.T) {
		inBed(t, func(b *bed) {
			var reported []error
			handler := otel.GetErrorHandler()
			otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { reported = append(reported, err) }))
			defer otel.SetErrorHandler(handler)
			b.tracers.RegisterSpanProcessor(panicking{})
			wd := b.attach(laddered)
			after(20*minute + 2)
			require.NoError(t, wd.Close())
			require.Len(t, reported, 1)
			require.EqualError(t, reported[0], "end the span of run s-1: a span processor panicked with a string")
			require.Zero(t, b.count("watchdog.runs.live"))
		})
	})
	t.Run("what a run's metrics measured leads to it", func(t *testing.T) {
		inBed(t, func(b *bed) {
			b.attach(laddered)
			after(20*minute + 2)
			points := b.metrics()["watchdog.lateness.ms"].Data.(metricdata.Histogram[float64]).DataPoints
			require.Len(t, points, 2)
			for _, point := range points {
				id := b.spans()[0].SpanContext.SpanID()
				require.Equal(t, id[:], point.Exemplars[0].SpanID)
			}
		})
	})
	t.Run("a resumed run has another one", func(t *testing.T) {
		inBed(t, func(b *bed) {
			wd := b.attach(laddered)
			after(20*minute + 2)
			resumed, err := b.instrument.Resume(context.Background(), watchdog.Run{ID: "s-1", StartedAt: wd.StartedAt()},
				watchdog.Config{Store: b.store, Logger: quiet})
			require.NoError(t, err)
			require.NoError(t, resumed.Context().Err())
			require.NoError(t, resumed.Close())
			require.Len(t, b.spans(), 2)
		})
	})
}

// A slow store takes two seconds for everything.
type slow struct{ watchdog.EventStore }

func (s *slow) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	time.Sleep(2 * time.Second)
	return s.EventStore.Read(ctx, aggregateType, aggregateID)
}

func (s *slow) Append(ctx context.Context, events ...watchdog.Event) error {
	time.Sleep(2 * time.Second)
	return s.EventStore.Append(ctx, events...)
}

// panicking is a processor that panics.
type panicking struct{}

func (panicking) OnStart(context.Context, trace.ReadWriteSpan) {}
func (panicking) OnEnd(trace.ReadOnlySpan)                     { panic(secret) }
func (panicking) Shutdown(context.Context) error               { return nil }
func (panicking) ForceFlush(context.Context) error             { return nil }

// numbering is a keeper that counts attempts.
type numbering int

func (n numbering) Keep(context.Context, *watchdog.Watchdog) (watchdog.Attempt, error) {
	return watchdog.Attempt{Number: int(n)}, nil
}

func TestTheSpansSayWhatTheyDidAndNoMore(t *testing.T) {
	inBed(t, func(b *bed) {
		cfg := laddered
		cfg.Keeper = numbering(3)
		wd := b.attach(cfg)
		after(10*minute + 1)
		layer, err := wd.Layer("step", watchdog.Budget{WallClock: minute})
		require.NoError(t, err)
		after(minute + 1)
		after(9 * minute)
		require.NoError(t, layer.Close())
		require.NoError(t, wd.Close())
		var text strings.Builder
		for _, span := range b.spans() {
			describeSpan(&text, span)
		}
		requireGolden(t, "spans.txt", text.String())
	})
}

// describeSpan writes what a span says, with times from its start.
func describeSpan(text *strings.Builder, span tracetest.SpanStub) {
	fmt.Fprintf(text, "%s %s %v %q\n", span.Name, span.SpanKind, span.Status.Code, span.Status.Description)
	describeAttributes(text, span.Attributes)
	for _, e := range span.Events {
		fmt.Fprintf(text, "  %s after %v\n", e.Name, e.Time.Sub(span.StartTime).Round(time.Second))
		describeAttributes(text, e.Attributes)
	}
}

func describeAttributes(text *strings.Builder, attributes []attribute.KeyValue) {
	for _, a := range attributes {
		fmt.Fprintf(text, "    %s %s %s\n", a.Key, a.Value.Type(), a.Value.String())
	}
}

func names(spans tracetest.SpanStubs) []string {
	all := make([]string, len(spans))
	for n, span := range spans {
		all[n] = span.Name
	}
	return all
}

func TestNothingOfTheRunsContentIsTold(t *testing.T) {
	const canary = secret
	inBed(t, func(b *bed) {
		ctx, cancel := context.WithCancelCause(context.Background())
		cfg := laddered
		cfg.Budget.Ladders.Hold = []watchdog.DirectiveKind{watchdog.DirectiveUnstuck}
		wd := b.attachIn(ctx, "s-1", cfg)
		wd.Note(canary + " is what the tool was called with")
		_, err := wd.Hold(wd.Context(), canary+" hold", minute)
		require.NoError(t, err)
		var calls bound.Calls
		b.instrument.Calls(&calls)
		bound.Do(wd.Context(), bound.Call{Key: canary, Calls: &calls, Limit: time.Second, Grace: time.Second, Logger: quiet},
			func(ctx context.Context) (string, error) {
				<-ctx.Done()
				time.Sleep(time.Hour)
				return canary, errors.New(canary)
			})
		after(2 * minute) // past the cap of the hold, and its rung
		after(2 * time.Hour)
		interrupted := b.attachIn(context.Background(), "s-2", laddered)
		_ = interrupted.Interrupt(canary)
		parented := b.attachIn(ctx, "s-3", laddered)
		cancel(errors.New(canary))
		synctest.Wait()
		tellPass(b)
		require.NoError(t, parented.Close())
		require.NoError(t, wd.Close())

		require.Contains(t, wd.Stop().Error(), canary, "there was something to tell")
		require.Len(t, b.spans(), 3)
		require.NotContains(t, fmt.Sprintf("%+v", b.spans()), canary)
		require.NotContains(t, fmt.Sprintf("%+v", b.metrics()), canary)
	})
}

func TestNoMetricHasTheIDOfARun(t *testing.T) {
	inBed(t, func(b *bed) {
		for n := range 20 {
			wd := b.attachIn(context.Background(), fmt.Sprint("run-", n), laddered)
			_, err := wd.Layer("step", watchdog.Budget{WallClock: minute})
			require.NoError(t, err)
		}
		after(20*minute + 2)
		require.EqualValues(t, 60, b.count("watchdog.trips.total"), "two of each run and one of its layer")
		for name, m := range b.metrics() {
			require.NotContains(t, fmt.Sprintf("%+v", m.Data), "run-", name)
		}
	})
}

func TestRunsEndAndTripFromManyGoroutines(t *testing.T) {
	b := newBed(t)
	var runs sync.WaitGroup
	for n := range 64 {
		wd := b.attachIn(context.Background(), fmt.Sprint("s-", n), laddered)
		for _, end := range []func(){
			func() { wd.Close() }, func() { wd.Watchdog.Close() }, func() { b.metrics() },
			func() { _, _ = wd.Cancel(watchdog.Cancellation{Reason: watchdog.StopReason(fmt.Sprint("host_", n%8))}) },
		} {
			runs.Go(end)
		}
	}
	runs.Wait()
	require.Zero(t, b.count("watchdog.runs.live"))
	require.Len(t, b.spans(), 64)
	stopped := 0
	for _, span := range b.spans() {
		if span.Status.Code == codes.Error {
			stopped++
			require.Len(t, span.Events, 1)
		}
	}
	require.EqualValues(t, stopped, b.count("watchdog.trips.total"))
}
