package otelwatchdog_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"gotest.tools/v3/golden"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/otelwatchdog"
)

// ends are the ways in which a run can end, and the end in its span.
var ends = map[string]struct {
	how  func(wd *otelwatchdog.Watchdog, cancelParent func())
	says string
}{
	"closed":                   {func(wd *otelwatchdog.Watchdog, _ func()) { wd.Close() }, "closed"},
	"closed without its spans": {func(wd *otelwatchdog.Watchdog, _ func()) { wd.Watchdog.Close() }, "closed"},
	"stopped by a limit":       {func(*otelwatchdog.Watchdog, func()) { after(20*minute + 2) }, "stopped"},
	"cancelled by a guard": {func(wd *otelwatchdog.Watchdog, _ func()) {
		_, _ = wd.Cancel(watchdog.Cancellation{Reason: "host"})
	}, "stopped"},
	"interrupted":         {func(wd *otelwatchdog.Watchdog, _ func()) { _ = wd.Interrupt("SIGINT") }, "interrupted"},
	"ended by its parent": {func(_ *otelwatchdog.Watchdog, cancelParent func()) { cancelParent() }, "parent"},
	"closed after its parent": {
		func(wd *otelwatchdog.Watchdog, cancelParent func()) { cancelParent(); wd.Close() }, "parent",
	},
	"stopped, and then closed": {
		func(wd *otelwatchdog.Watchdog, _ func()) { after(20*minute + 2); wd.Close() }, "stopped",
	},
	"interrupted after its end": {
		func(wd *otelwatchdog.Watchdog, _ func()) { wd.Close(); _ = wd.Interrupt("SIGINT") }, "closed",
	},
}

func TestSpan(t *testing.T) {
	t.Run("it ends with the run, once, has the end as attribute, and the run is live until then", func(t *testing.T) {
		for name, end := range ends {
			bubble(t, name, func(f *fixture) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				wd := f.attachIn(ctx, "s-1", laddered)
				require.Empty(f.t, f.spans())
				require.EqualValues(f.t, 1, f.count("watchdog.runs.live"))
				end.how(wd, cancel)
				synctest.Wait()
				require.Zero(f.t, f.count("watchdog.runs.live"))
				require.NoError(f.t, wd.Close())
				require.Zero(f.t, f.count("watchdog.runs.live"), "it is counted out once")
				require.Len(f.t, f.spans(), 1)
				span := f.spans()[0]
				require.Equal(f.t, end.says, attributeOf(span, "watchdog.run.end"))
				require.Equal(f.t, end.says == "stopped", span.Status.Code == codes.Error)
				require.Equal(f.t, end.says == "stopped", attributeOf(span, "watchdog.reason") != "")
			})
		}
	})
	bubble(t, "the span of a stuck host ends at the limit", func(f *fixture) {
		f.attach(watchdog.Config{Budget: watchdog.Budget{WallClock: minute}}) // and nobody polls it
		after(minute + 1)
		require.Len(f.t, f.spans(), 1)
		require.InDelta(f.t, minute, f.spans()[0].EndTime.Sub(f.spans()[0].StartTime), float64(time.Microsecond))
	})
	bubble(t, "it is the parent of spans in the run and the child of the attach's span", func(f *fixture) {
		tracer := f.tracers.Tracer("host")
		ctx, outer := tracer.Start(context.Background(), "request")
		wd := f.attachIn(ctx, "s-1", laddered)
		layer, err := wd.Layer("step", watchdog.Budget{})
		require.NoError(f.t, err)
		_, work := tracer.Start(layer.Context(), "work")
		work.End()
		require.NoError(f.t, layer.Close())
		require.NoError(f.t, wd.Close())
		outer.End()
		require.Equal(f.t, []string{"work", "watchdog.run", "watchdog.run", "request"}, names(f.spans()))
		for n, span := range f.spans()[:3] {
			require.Equal(f.t, f.spans()[n+1].SpanContext.SpanID(), span.Parent.SpanID())
		}
	})
	bubble(t, "the run's context has the watchdog", func(f *fixture) {
		wd := f.attach(laddered)
		require.Same(f.t, wd.Watchdog, watchdog.FromContext(wd.Context()))
		require.NoError(f.t, wd.Close())
		require.ErrorIs(f.t, context.Cause(wd.Context()), watchdog.ErrClosed)
	})
	t.Run("a layer that its run ended has parent as its end", func(t *testing.T) {
		for _, how := range []func(wd *otelwatchdog.Watchdog){
			func(wd *otelwatchdog.Watchdog) { wd.Close() },
			func(wd *otelwatchdog.Watchdog) { _, _ = wd.Cancel(watchdog.Cancellation{Reason: "host"}) },
			func(wd *otelwatchdog.Watchdog) { _ = wd.Interrupt("SIGINT") },
		} {
			inBubble(t, func(f *fixture) {
				wd := f.attach(laddered)
				layer, err := wd.Layer("step", watchdog.Budget{})
				require.NoError(t, err)
				how(wd)
				synctest.Wait()
				require.NoError(t, layer.Close())
				isLayer := func(s tracetest.SpanStub) bool { return attributeOf(s, "watchdog.run.parent") == "s-1" }
				i := slices.IndexFunc(f.spans(), isLayer)
				require.Equal(t, "parent", attributeOf(f.spans()[i], "watchdog.run.end"))
				require.Equal(t, codes.Unset, f.spans()[i].Status.Code)
				require.Equal(t, "s-1/step", attributeOf(f.spans()[i], "watchdog.run.id"))
			})
		}
	})
	bubble(t, "it begins with the attach, and a trip has its own time, even with a slow store", func(f *fixture) {
		cfg, began := laddered, time.Now()
		cfg.Store = &slowStore{EventStore: f.store}
		wd := f.attach(cfg)
		require.Equal(f.t, 2*time.Second, time.Since(began))
		attached := time.Now()
		after(11 * minute)
		require.NoError(f.t, wd.Close())
		span := f.spans()[0]
		require.True(f.t, began.Equal(span.StartTime))
		require.Len(f.t, span.Events, 1)
		require.InDelta(f.t, 10*minute, span.Events[0].Time.Sub(attached), float64(time.Microsecond),
			"silence begins when the attach is done")
	})
	bubble(t, "a processor that panics is reported and ends nothing", func(f *fixture) {
		var reported []error
		handler := otel.GetErrorHandler()
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { reported = append(reported, err) }))
		defer otel.SetErrorHandler(handler)
		f.tracers.RegisterSpanProcessor(onEnd(func() { panic(secret) }))
		wd := f.attach(laddered)
		after(20*minute + 2)
		require.NoError(f.t, wd.Close())
		require.Len(f.t, reported, 1)
		require.EqualError(f.t, reported[0], "end the span of run s-1: a span processor panicked with a string")
		require.Zero(f.t, f.count("watchdog.runs.live"))
	})
	t.Run("a processor that closes the run in OnEnd waits for nothing", func(t *testing.T) {
		for name, end := range ends {
			bubble(t, name, func(f *fixture) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var run atomic.Pointer[otelwatchdog.Watchdog]
				ended := 0
				f.tracers.RegisterSpanProcessor(onEnd(func() {
					began := time.Now()
					assert.NoError(f.t, run.Load().Close())
					assert.Zero(f.t, time.Since(began))
					ended++
				}))
				wd := f.attachIn(ctx, "s-1", laddered)
				run.Store(wd)
				end.how(wd, cancel)
				synctest.Wait()
				began := time.Now()
				require.NoError(f.t, wd.Close())
				require.Zero(f.t, time.Since(began))
				require.Equal(f.t, 1, ended)
			})
		}
	})
	t.Run("Close waits for a processor that is slow, and no longer than the record timeout", func(t *testing.T) {
		for takes, waits := range map[time.Duration]time.Duration{
			time.Second: time.Second, time.Hour: watchdog.DefaultRecordTimeout,
		} {
			inBubble(t, func(f *fixture) {
				f.tracers.RegisterSpanProcessor(onEnd(func() { time.Sleep(takes) }))
				began := time.Now()
				require.NoError(t, f.attach(laddered).Close())
				require.Equal(t, waits, time.Since(began))
				after(takes)
			})
		}
	})
	bubble(t, "a processor that waits for somebody who closes the run is not waited for", func(f *fixture) {
		var wd *otelwatchdog.Watchdog
		f.tracers.RegisterSpanProcessor(onEnd(func() {
			var closing sync.WaitGroup
			closing.Go(func() { wd.Close() })
			closing.Wait()
		}))
		wd = f.attach(laddered)
		require.NoError(f.t, wd.Close())
		synctest.Wait()
		require.Len(f.t, f.spans(), 1)
	})
	bubble(t, "exemplars of the run's metrics have its ID", func(f *fixture) {
		f.attach(laddered)
		after(20*minute + 2)
		points := f.metrics()["watchdog.lateness.ms"].Data.(metricdata.Histogram[float64]).DataPoints
		require.Len(f.t, points, 2)
		for _, point := range points {
			id := f.spans()[0].SpanContext.SpanID()
			require.Equal(f.t, id[:], point.Exemplars[0].SpanID)
		}
	})
	bubble(t, "a resumed run has another span", func(f *fixture) {
		wd := f.attach(laddered)
		after(20*minute + 2)
		resumed, err := f.instrument.Resume(context.Background(), watchdog.Run{ID: "s-1", StartedAt: wd.StartedAt()},
			watchdog.Config{Store: f.store, Logger: quiet})
		require.NoError(f.t, err)
		require.NoError(f.t, resumed.Context().Err())
		require.NoError(f.t, resumed.Close())
		require.Len(f.t, f.spans(), 2)
	})
}

// slowStore is a store that takes two seconds for each call.
type slowStore struct{ watchdog.EventStore }

func (s *slowStore) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	time.Sleep(2 * time.Second)
	return s.EventStore.Read(ctx, aggregateType, aggregateID)
}

func (s *slowStore) Append(ctx context.Context, events ...watchdog.Event) error {
	time.Sleep(2 * time.Second)
	return s.EventStore.Append(ctx, events...)
}

// onEnd is a span processor that does this at the end of each span.
type onEnd func()

func (onEnd) OnStart(context.Context, trace.ReadWriteSpan) {}
func (end onEnd) OnEnd(trace.ReadOnlySpan)                 { end() }
func (onEnd) Shutdown(context.Context) error               { return nil }
func (onEnd) ForceFlush(context.Context) error             { return nil }

// attemptKeeper is a keeper that counts attempts.
type attemptKeeper int

func (n attemptKeeper) Keep(context.Context, *watchdog.Watchdog) (watchdog.Attempt, error) {
	return watchdog.Attempt{Number: int(n)}, nil
}

func (attemptKeeper) Ended(context.Context, *watchdog.Watchdog) {}

func (attemptKeeper) Start(context.Context, string) (time.Time, error) { return time.Time{}, nil }

// TestSpanContent compares everything in the spans with a golden file.
func TestSpanContent(t *testing.T) {
	inBubble(t, func(f *fixture) {
		cfg := laddered
		cfg.Keeper = attemptKeeper(3)
		wd := f.attach(cfg)
		after(10*minute + 1)
		layer, err := wd.Layer("step", watchdog.Budget{WallClock: minute})
		require.NoError(t, err)
		after(minute + 1)
		after(9 * minute)
		require.NoError(t, layer.Close())
		require.NoError(t, wd.Close())
		var text strings.Builder
		for _, span := range f.spans() {
			describeSpan(&text, span)
		}
		golden.Assert(t, text.String(), "spans.txt")
	})
}

// describeSpan writes a span as text, with times from its start.
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

// TestNoContent searches metrics and spans for texts of the host.
func TestNoContent(t *testing.T) {
	const canary = secret
	inBubble(t, func(f *fixture) {
		ctx, cancel := context.WithCancelCause(context.Background())
		cfg := laddered
		cfg.Budget.Ladders.Hold = []watchdog.DirectiveKind{watchdog.DirectiveUnstuck}
		wd := f.attachIn(ctx, "s-1", cfg)
		wd.Note(canary + " is what the tool was called with")
		_, err := wd.Hold(wd.Context(), canary+" hold", watchdog.HoldLimit{Cap: minute})
		require.NoError(t, err)
		var calls bound.Calls
		f.instrument.Calls(&calls)
		bound.Do(wd.Context(), bound.Call{Key: canary, Calls: &calls, Limit: time.Second, Grace: time.Second, Logger: quiet},
			func(ctx context.Context) (string, error) {
				<-ctx.Done()
				time.Sleep(time.Hour)
				return canary, errors.New(canary)
			})
		after(2 * minute) // past the cap of the hold, and its rung
		after(2 * time.Hour)
		interrupted := f.attachIn(context.Background(), "s-2", laddered)
		_ = interrupted.Interrupt(canary)
		parented := f.attachIn(ctx, "s-3", laddered)
		cancel(errors.New(canary))
		synctest.Wait()
		recordPass(f)
		require.NoError(t, parented.Close())
		require.NoError(t, wd.Close())

		require.Contains(t, wd.Stop().Error(), canary, "the stop's error has the text")
		require.Len(t, f.spans(), 3)
		require.NotContains(t, fmt.Sprintf("%+v", f.spans()), canary)
		require.NotContains(t, fmt.Sprintf("%+v", f.metrics()), canary)
	})
}

func TestNoRunIDs(t *testing.T) {
	inBubble(t, func(f *fixture) {
		for n := range 20 {
			wd := f.attachIn(context.Background(), fmt.Sprint("run-", n), laddered)
			_, err := wd.Layer("step", watchdog.Budget{WallClock: minute})
			require.NoError(t, err)
		}
		after(20*minute + 2)
		require.EqualValues(t, 60, f.count("watchdog.trips.total"), "two for each run and one for its layer")
		for name, m := range f.metrics() {
			require.NotContains(t, fmt.Sprintf("%+v", m.Data), "run-", name)
		}
	})
}

// TestConcurrentEnds ends runs and trips their limits from many goroutines.
func TestConcurrentEnds(t *testing.T) {
	f := newFixture(t)
	var runs sync.WaitGroup
	for n := range 64 {
		wd := f.attachIn(context.Background(), fmt.Sprint("s-", n), laddered)
		for _, end := range []func(){
			func() { wd.Close() }, func() { wd.Watchdog.Close() }, func() { f.metrics() },
			func() { _, _ = wd.Cancel(watchdog.Cancellation{Reason: watchdog.StopReason(fmt.Sprint("host_", n%8))}) },
		} {
			runs.Go(end)
		}
	}
	runs.Wait()
	require.Zero(t, f.count("watchdog.runs.live"))
	require.Len(t, f.spans(), 64)
	stopped := 0
	for _, span := range f.spans() {
		if span.Status.Code == codes.Error {
			stopped++
			require.Len(t, span.Events, 1)
		}
	}
	require.EqualValues(t, stopped, f.count("watchdog.trips.total"))
}

func euros(micros int64) watchdog.Money { return watchdog.Money{Micros: micros, Currency: "EUR"} }

func limit(name string) attribute.KeyValue { return attribute.String("watchdog.limit", name) }

var waits = []watchdog.DirectiveKind{watchdog.DirectiveWait}

// spending is a run with limits, which only waits when they are exceeded.
var spending = watchdog.Config{
	Budget: watchdog.Budget{
		Spend:   watchdog.Spend{Tokens: 1000, Cost: euros(1_000_000), Tools: map[string]int64{"bash": 2}},
		Ladders: watchdog.Ladders{Tokens: waits, Cost: waits, ToolCalls: waits},
	},
}

// spendEverything has a limit of each attribute used.
func spendEverything(f *fixture) {
	wd := f.attachIn(context.Background(), "s-spending", spending)
	admit(f, wd, watchdog.Amount{InputTokens: 1, ToolCalls: 1, Tool: "bash", Cost: euros(1)})
}

func admit(f *fixture, wd *otelwatchdog.Watchdog, most watchdog.Amount) watchdog.Charge {
	f.t.Helper()
	charge, err := wd.Admit(context.Background(), "", most)
	require.NoError(f.t, err)
	return charge
}

func requireRefused(f *fixture, wd *otelwatchdog.Watchdog, most watchdog.Amount) {
	f.t.Helper()
	_, err := wd.Admit(context.Background(), "", most)
	var refused *watchdog.Refused
	require.ErrorAs(f.t, err, &refused)
}

func TestSpend(t *testing.T) {
	const used, admitted, allowed = "watchdog.spend.used", "watchdog.spend.admitted", "watchdog.spend.allowed"
	const refused = "watchdog.spend.refused"
	bubble(t, "what live runs have used and may use is added up, by limit and tool", func(f *fixture) {
		one, other := f.attach(spending), f.attachIn(context.Background(), "s-2", spending)
		require.NoError(f.t, admit(f, one, watchdog.Amount{InputTokens: 300}).Settle(watchdog.Amount{InputTokens: 200}))
		admit(f, other, watchdog.Amount{InputTokens: 30, ToolCalls: 1, Tool: "bash"})
		require.EqualValues(f.t, 200, f.count(used, limit("tokens")))
		require.EqualValues(f.t, 30, f.count(admitted, limit("tokens")))
		require.EqualValues(f.t, 2000, f.count(allowed, limit("tokens")))
		bash := attribute.String("watchdog.tool", "bash")
		require.EqualValues(f.t, 1, f.count(admitted, limit("tool_calls"), bash))
		require.EqualValues(f.t, 4, f.count(allowed, limit("tool_calls"), bash))
		require.NoError(f.t, other.Close())
		require.EqualValues(f.t, 1000, f.count(allowed, limit("tokens")), "only of runs that live")
		require.Zero(f.t, f.count(admitted, limit("tokens")))
	})
	bubble(t, "each count has its gauges, by the name that it has in events", func(f *fixture) {
		all := watchdog.Spend{Cost: euros(999)}
		want := map[string]int64{"cost": 999}
		for i, of := range reflect.VisibleFields(reflect.TypeFor[watchdog.Spend]()) {
			if field := reflect.ValueOf(&all).Elem().Field(i); field.CanInt() {
				field.SetInt(int64(1000 + i))
				want[strings.ToLower(regexp.MustCompile(`\B[A-Z]`).ReplaceAllString(of.Name, "_$0"))] = int64(1000 + i)
			}
		}
		f.attach(watchdog.Config{Budget: watchdog.Budget{Spend: all}})
		for name, most := range want {
			require.Equal(f.t, most, f.count(allowed, limit(name)), name)
		}
	})
	bubble(t, "each refused call counts, also after the trip and the end of the run", func(f *fixture) {
		wd := f.attach(spending)
		require.Zero(f.t, f.count(refused))
		for range 3 {
			requireRefused(f, wd, watchdog.Amount{InputTokens: 1001})
		}
		requireRefused(f, wd, watchdog.Amount{Cost: euros(1_000_001)})
		synctest.Wait()
		require.EqualValues(f.t, 1, f.count("watchdog.trips.total", reason(watchdog.TokensExceeded)), "the ladder only waits")
		require.EqualValues(f.t, 3, f.count(refused, limit("tokens")))
		require.EqualValues(f.t, 1, f.count(refused, limit("cost")))
		require.NoError(f.t, wd.Close())
		require.EqualValues(f.t, 4, f.count(refused))
		again := f.attachIn(context.Background(), "s-2", spending)
		requireRefused(f, again, watchdog.Amount{InputTokens: 1001})
		require.EqualValues(f.t, 5, f.count(refused))
	})
	bubble(t, "the refused call that ends its run counts", func(f *fixture) {
		wd := f.attach(watchdog.Config{Budget: watchdog.Budget{Spend: watchdog.Spend{Turns: 1}}})
		requireRefused(f, wd, watchdog.Amount{Turns: 2})
		synctest.Wait()
		require.Error(f.t, wd.Context().Err())
		require.EqualValues(f.t, 1, f.count(refused, limit("turns")))
		require.EqualValues(f.t, 1, f.count("watchdog.trips.total", reason(watchdog.TurnsExceeded),
			directive(watchdog.DirectiveCancel)))
		event := f.spans()[0].Events[0]
		require.Contains(f.t, event.Attributes, limit("turns"))
		require.Contains(f.t, event.Attributes, attribute.Int64("watchdog.spend.allowed", 1))
		require.Contains(f.t, event.Attributes, attribute.Int64("watchdog.spend.needed", 2))
	})
	bubble(t, "a layer has series of its own, and its calls are also the run's", func(f *fixture) {
		wd := f.attach(spending)
		layer, err := wd.Layer("step", watchdog.Budget{Spend: watchdog.Spend{Tokens: 100}})
		require.NoError(f.t, err)
		admit(f, layer, watchdog.Amount{InputTokens: 10})
		require.EqualValues(f.t, 10, f.count(admitted, limit("tokens"), attribute.Bool("watchdog.layer", true)))
		require.EqualValues(f.t, 10, f.count(admitted, limit("tokens"), attribute.Bool("watchdog.layer", false)))
	})
	bubble(t, "a run without counted limits has no series", func(f *fixture) {
		wd := f.attach(laddered)
		admit(f, wd, watchdog.Amount{InputTokens: 10})
		for _, name := range []string{used, admitted, allowed, refused} {
			require.Empty(f.t, f.points(name))
		}
	})
	t.Run("runs can end while they are measured, and no refused call is lost", func(t *testing.T) {
		const runs = 40
		f := newFixture(t)
		var all sync.WaitGroup
		for n := range runs {
			all.Go(func() {
				wd, err := f.instrument.Attach(context.Background(), watchdog.Run{ID: fmt.Sprint("s-", n)}, watchdog.Config{
					Budget: spending.Budget, Logger: quiet,
				})
				if err != nil {
					t.Error(err)
					return
				}
				_, err = wd.Admit(context.Background(), "", watchdog.Amount{InputTokens: 1001})
				if err == nil {
					t.Error("a call was not refused")
				}
				wd.Close()
			})
		}
		last := int64(0)
		for range 50 {
			n := f.count(refused)
			require.GreaterOrEqual(t, n, last, "a counter never goes back")
			last = n
		}
		all.Wait()
		require.EqualValues(t, runs, f.count(refused))
	})
}
