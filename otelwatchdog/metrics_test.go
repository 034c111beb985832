package otelwatchdog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"gotest.tools/v3/golden"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/otelwatchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/sweep"
	"github.com/seed62658d38/watchdog/watchdogtest"
)

// TestMetricNames compares the names, units and attributes of all metrics with a golden file.
func TestMetricNames(t *testing.T) {
	inBubble(t, func(f *fixture) {
		recordEverything(f)
		var lines strings.Builder
		all := f.metrics()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			m := all[name]
			kind, keys := describe(m.Data)
			fmt.Fprintf(&lines, "%s\t%s\t%s\t%s\t%s\n", name, kind, m.Unit, strings.Join(keys, " "), m.Description)
		}
		golden.Assert(f.t, lines.String(), "metrics.tsv")
	})
}

// recordEverything uses each metric, in a bubble.
func recordEverything(f *fixture) {
	f.attach(laddered)
	after(20*minute + 2)
	abandon(f, &bound.Calls{})
	recordPass(f)
	spendEverything(f)
}

// abandon abandons a call that ends later.
func abandon(f *fixture, calls *bound.Calls) {
	f.instrument.Calls(calls)
	abandonOne(calls)
}

func abandonOne(calls *bound.Calls) {
	end := make(chan struct{})
	bound.Do(context.Background(), bound.Call{Calls: calls, Limit: minute, Grace: minute, Logger: quiet},
		func(context.Context) (int, error) { <-end; return 0, nil })
	close(end)
	synctest.Wait()
}

// describe returns the kind of a metric and the keys of its attributes.
func describe(data metricdata.Aggregation) (kind string, keys []string) {
	seen := map[string]struct{}{}
	see := func(set attribute.Set) {
		for _, a := range set.ToSlice() {
			seen[string(a.Key)] = struct{}{}
		}
	}
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		kind = map[bool]string{true: "counter", false: "up-down counter"}[data.IsMonotonic]
		for _, point := range data.DataPoints {
			see(point.Attributes)
		}
	case metricdata.Gauge[int64]:
		kind = "gauge"
		for _, point := range data.DataPoints {
			see(point.Attributes)
		}
	case metricdata.Histogram[float64]:
		kind = "histogram"
		for _, point := range data.DataPoints {
			see(point.Attributes)
		}
	}
	return kind, slices.Sorted(maps.Keys(seen))
}

func TestLiveRuns(t *testing.T) {
	live := func(f *fixture, layer bool) int64 {
		return f.count("watchdog.runs.live", attribute.Bool("watchdog.layer", layer))
	}
	bubble(t, "layers have a count of their own", func(f *fixture) {
		layer, err := f.attach(laddered).Layer("step", watchdog.Budget{})
		require.NoError(f.t, err)
		require.EqualValues(f.t, 1, live(f, false))
		require.EqualValues(f.t, 1, live(f, true))
		require.NoError(f.t, layer.Close())
		require.EqualValues(f.t, 1, live(f, false))
		require.Zero(f.t, live(f, true))
	})
	bubble(t, "a failed attach counts no run", func(f *fixture) {
		_, err := f.instrument.Attach(context.Background(), watchdog.Run{ID: " "}, watchdog.Config{Store: f.store})
		require.ErrorIs(f.t, err, watchdog.ErrInvalid)
		_, err = f.attach(laddered).Layer("a/b", watchdog.Budget{})
		require.ErrorIs(f.t, err, watchdog.ErrInvalid)
		require.EqualValues(f.t, 1, live(f, false), "the run around the layer")
		require.Zero(f.t, live(f, true))
		require.Empty(f.t, f.spans())
	})
	t.Run("runs cost no goroutine", func(t *testing.T) {
		f := newFixture(t)
		f.attach(laddered) // starts the alarm's goroutine
		before := runtime.NumGoroutine()
		for n := range 1000 {
			wd := f.attachIn(context.Background(), fmt.Sprint("s-", n), laddered)
			_, cancel := context.WithCancel(wd.Context()) // as work in the run does
			t.Cleanup(cancel)
		}
		require.LessOrEqual(t, runtime.NumGoroutine(), before+5)
	})
}

func TestTrips(t *testing.T) {
	const trips = "watchdog.trips.total"
	observed := func(is bool) attribute.KeyValue { return attribute.Bool("watchdog.observe_only", is) }
	bubble(t, "each trip is counted once, by limit and directive", func(f *fixture) {
		wd := f.attach(laddered)
		after(10*minute + 1)
		idle := reason(watchdog.IdleExceeded)
		require.EqualValues(f.t, 1, f.count(trips, idle, directive(watchdog.DirectiveRetry)))
		require.Zero(f.t, f.count(trips, directive(watchdog.DirectiveCancel)))
		after(10*minute + 1)
		require.EqualValues(f.t, 1, f.count(trips, idle, directive(watchdog.DirectiveCancel), observed(false)))
		require.NoError(f.t, wd.Close())
		require.EqualValues(f.t, 2, f.count(trips))
	})
	bubble(t, "a cancel that is only observed has the attribute", func(f *fixture) {
		wd := f.attach(watchdog.Config{ObserveOnly: true, Budget: watchdog.Budget{WallClock: minute}})
		after(minute + 1)
		require.NoError(f.t, wd.Context().Err())
		wallClock := reason(watchdog.WallClockExceeded)
		require.EqualValues(f.t, 1, f.count(trips, wallClock, directive(watchdog.DirectiveCancel), observed(true)))
		require.EqualValues(f.t, 1, f.count(trips))
	})
	bubble(t, "a cancel on another host is counted here too", func(f *fixture) {
		here, there := f.attach(laddered), f.attach(laddered)
		_, err := there.Cancel(watchdog.Cancellation{Reason: watchdog.SessionIdleTimeout})
		require.NoError(f.t, err)
		_, err = here.Sync(context.Background())
		require.NoError(f.t, err)
		synctest.Wait()
		require.EqualValues(f.t, 2, f.count(trips, reason(watchdog.SessionIdleTimeout), directive(watchdog.DirectiveCancel)))
	})
	bubble(t, "a cancel that was stored before the attach is not counted", func(f *fixture) {
		cfg := watchdog.Config{Budget: watchdog.Budget{WallClock: minute}}
		start := time.Now()
		f.attach(cfg)
		after(minute + time.Second)
		again(f, start, cfg)
		require.EqualValues(f.t, 1, f.count(trips))
		require.Zero(f.t, f.count("watchdog.runs.live"))
		require.Len(f.t, f.spans(), 2)
		require.Empty(f.t, f.spans()[1].Events)
		require.Equal(f.t, string(watchdog.WallClockExceeded), f.spans()[1].Status.Description)
	})
	bubble(t, "a cancel that the attach finds is counted", func(f *fixture) {
		start := time.Now()
		after(2 * minute)
		again(f, start, watchdog.Config{Budget: watchdog.Budget{WallClock: minute}})
		require.EqualValues(f.t, 1, f.count(trips))
		n, late := f.latenesses()
		require.EqualValues(f.t, 1, n)
		require.InDelta(f.t, 60_000, late, 0.001)
	})
	t.Run("with PollOnly the goroutine that finds a trip exports it", func(t *testing.T) {
		f := newFixture(t)
		mock := watchdogtest.NewMockClock()
		mock.Set(time.Now().Add(-24 * time.Hour)) // by the run's clock that was before its attach
		cfg := laddered
		cfg.PollOnly, cfg.Clock = true, mock
		wd := f.attach(cfg)
		mock.Add(11 * minute)
		_, _ = wd.Fired()
		require.EqualValues(t, 1, f.count(trips, directive(watchdog.DirectiveRetry)))
		mock.Add(11 * minute)
		_, fired := wd.Fired()
		require.True(t, fired)
		require.NoError(t, wd.Close())
		require.EqualValues(t, 1, f.count(trips, directive(watchdog.DirectiveCancel)))
		_, late := f.latenesses()
		require.InDelta(t, 120_000, late, 0.001, "a minute each")
	})
	bubble(t, "only the first codes of the host's own are reported by name", func(f *fixture) {
		for n := range otelwatchdog.MaxHostReasons + 5 {
			wd := f.attachIn(context.Background(), fmt.Sprint("s-", n), laddered)
			_, err := wd.Cancel(watchdog.Cancellation{Reason: watchdog.StopReason(fmt.Sprint("out_of_tokens_", n))})
			require.NoError(f.t, err)
			require.NoError(f.t, wd.Close())
		}
		wd := f.attachIn(context.Background(), "s-last", laddered)
		_, err := wd.Cancel(watchdog.Cancellation{Reason: watchdog.LoopDetected})
		require.NoError(f.t, err)
		require.NoError(f.t, wd.Close())
		require.EqualValues(f.t, 1, f.count(trips, reason("out_of_tokens_0")))
		require.EqualValues(f.t, 5, f.count(trips, reason(otelwatchdog.OtherReason)))
		require.EqualValues(f.t, 1, f.count(trips, reason(watchdog.LoopDetected)), "a code of the watchdog is never other")
		require.Len(f.t, f.metrics()[trips].Data.(metricdata.Sum[int64]).DataPoints, otelwatchdog.MaxHostReasons+2)
	})
}

// again attaches to the first run again.
func again(f *fixture, start time.Time, cfg watchdog.Config) {
	cfg.Store, cfg.Logger = f.store, quiet
	wd, err := f.instrument.Attach(context.Background(), watchdog.Run{ID: "s-1", StartedAt: start}, cfg)
	require.NoError(f.t, err)
	require.NoError(f.t, wd.Close())
}

func TestLateness(t *testing.T) {
	bubble(t, "a cancel of a guard without a limit has no lateness", func(f *fixture) {
		wd := f.attach(laddered)
		_, err := wd.Cancel(watchdog.Cancellation{Reason: watchdog.CommandTerminal})
		require.NoError(f.t, err)
		synctest.Wait()
		require.EqualValues(f.t, 1, f.count("watchdog.trips.total"))
		n, _ := f.latenesses()
		require.Zero(f.t, n)
	})
	bubble(t, "a guard that cancels before its limit is not late", func(f *fixture) {
		wd := f.attach(laddered)
		_, err := wd.Cancel(watchdog.Cancellation{Reason: watchdog.CommandNoProgress, Elapsed: time.Second, Budget: minute})
		require.NoError(f.t, err)
		synctest.Wait()
		n, sum := f.latenesses()
		require.EqualValues(f.t, 1, n)
		require.Zero(f.t, sum)
	})
}

func TestAbandonedCalls(t *testing.T) {
	bubble(t, "the calls of all accounts are one count", func(f *fixture) {
		var one, other bound.Calls
		abandon(f, &one)
		abandon(f, &other)
		abandon(f, &other) // a second time: it changes nothing
		f.instrument.Calls(nil)
		require.EqualValues(f.t, 3, f.count("watchdog.calls.abandoned"))
		require.Zero(f.t, f.count("watchdog.calls.outstanding"))
	})
	bubble(t, "calls that have not ended are outstanding", func(f *fixture) {
		var calls bound.Calls
		f.instrument.Calls(&calls)
		end := make(chan struct{})
		bound.Do(context.Background(), bound.Call{Calls: &calls, Limit: minute, Grace: minute, Logger: quiet},
			func(context.Context) (int, error) { <-end; return 0, nil })
		require.EqualValues(f.t, 1, f.count("watchdog.calls.outstanding"))
		close(end)
		synctest.Wait()
		require.Zero(f.t, f.count("watchdog.calls.outstanding"))
		require.EqualValues(f.t, 1, f.count("watchdog.calls.abandoned"))
	})
	t.Run("without an account nothing is exported", func(t *testing.T) {
		require.NotContains(t, newFixture(t).metrics(), "watchdog.calls.abandoned")
	})
}

func TestProviders(t *testing.T) {
	bubble(t, "a run goes on unmeasured after their shutdown", func(f *fixture) {
		var calls bound.Calls
		f.instrument.Calls(&calls)
		wd := f.attach(laddered)
		require.NoError(f.t, f.meters.Shutdown(context.Background()))
		require.NoError(f.t, f.tracers.Shutdown(context.Background()))
		after(10*minute + 1)
		d, ok := wd.Poll()
		require.True(f.t, ok)
		require.Equal(f.t, watchdog.DirectiveRetry, d.Kind)
		later := f.attachIn(context.Background(), "s-2", laddered)
		abandonOne(&calls)
		recordPass(f)
		require.NoError(f.t, wd.Close())
		require.NoError(f.t, later.Close())
		require.Empty(f.t, f.spans())
	})
	t.Run("the global ones are the default", func(t *testing.T) {
		f := newFixture(t)
		meters, tracers := otel.GetMeterProvider(), otel.GetTracerProvider()
		otel.SetMeterProvider(f.meters)
		otel.SetTracerProvider(f.tracers)
		defer otel.SetMeterProvider(meters)
		defer otel.SetTracerProvider(tracers)
		instrument, err := otelwatchdog.New(otelwatchdog.Config{})
		require.NoError(t, err)
		f.instrument = instrument
		wd := f.attach(laddered)
		require.EqualValues(t, 1, f.count("watchdog.runs.live"))
		require.NoError(t, wd.Close())
		require.Len(t, f.spans(), 1)
	})
	t.Run("a provider that refuses a metric is an error", func(t *testing.T) {
		for _, refused := range []string{
			"watchdog.runs.live", "watchdog.trips.total", "watchdog.lateness.ms", "watchdog.calls.abandoned",
			"watchdog.calls.outstanding", "callback",
			"watchdog.spend.used", "watchdog.spend.admitted", "watchdog.spend.allowed", "watchdog.spend.refused",
			"watchdog.checks.total", "watchdog.sessions.canceled", "watchdog.duration.ms", "watchdog.sessions.behind",
		} {
			_, err := otelwatchdog.New(otelwatchdog.Config{MeterProvider: &refusingProvider{name: refused}})
			require.ErrorIs(t, err, errRefused, refused)
		}
	})
}

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

// secret is in every text of a pass that must not be exported.
const secret = "canary-7f3a"

// recordPass records a pass whose counts are all different.
func recordPass(f *fixture) {
	f.instrument.Pass(sweep.Pass{
		Tally: sweep.Tally{
			Checked: 90, Found: 50, Cancelled: 10, Spared: 3, Failed: 2, Warned: 7, Deferred: 28, Resumed: 4, Errors: 5,
			EndStored: 6, LeasesExpired: 8,
		},
		Duration: 1500 * time.Microsecond,
		Cases:    []sweep.Case{{Session: session.Session{RunID: secret, Host: secret}}},
		Errs:     []error{errors.New(secret)},
		Err:      errors.New(secret),
	})
}

func TestPass(t *testing.T) {
	t.Run("each count has its own metric", func(t *testing.T) {
		f := newFixture(t)
		recordPass(f)
		recordPass(f)
		for name, want := range map[string]int64{
			"watchdog.checks.total": 1, "watchdog.sessions.checked": 90, "watchdog.sessions.found": 50,
			"watchdog.sessions.canceled": 10,
			"watchdog.sessions.spared":   3, "watchdog.sessions.failed": 2, "watchdog.sessions.warned": 7,
			"watchdog.sessions.resumed": 4, "watchdog.sessions.end_stored": 6, "watchdog.leases.expired": 8,
			"watchdog.errors.total": 5,
		} {
			require.Equal(t, 2*want, f.count(name), name)
		}
		points := f.metrics()["watchdog.duration.ms"].Data.(metricdata.Histogram[float64]).DataPoints
		require.Len(t, points, 1)
		require.EqualValues(t, 2, points[0].Count)
		require.InDelta(t, 3, points[0].Sum, 1e-9)
	})
	t.Run("those whose process died are counted among the cancelled", func(t *testing.T) {
		f := newFixture(t)
		died := session.Session{Status: session.Active, Expired: session.ExpiredLease{ID: secret}}
		f.instrument.Pass(sweep.Pass{Cases: []sweep.Case{
			{Session: died, Handling: sweep.CaseCancelled}, {Session: died, Handling: sweep.CaseSpared},
			{Session: session.Session{Status: session.Active}, Handling: sweep.CaseCancelled},
			{Session: died, Handling: sweep.CaseCancelled},
		}})
		require.EqualValues(t, 2, f.count("watchdog.sessions.host_lost"))
	})
	t.Run("a pass that found nothing is exported too", func(t *testing.T) {
		f := newFixture(t)
		f.instrument.Pass(sweep.Pass{})
		require.EqualValues(t, 1, f.count("watchdog.checks.total"))
		require.Contains(t, f.metrics(), "watchdog.sessions.canceled", "a rate needs a first zero")
		require.Zero(t, f.count("watchdog.sessions.canceled"))
	})
	t.Run("rows that are behind are those of the last pass that saw the leases", func(t *testing.T) {
		f := newFixture(t)
		for _, behind := range []int{5, 3} {
			f.instrument.Pass(sweep.Pass{Behind: behind})
			require.EqualValues(t, behind, f.count("watchdog.sessions.behind"))
		}
		f.instrument.Pass(sweep.Pass{Err: errors.New("broken")})
		require.EqualValues(t, 3, f.count("watchdog.sessions.behind"))
		f.instrument.Pass(sweep.Pass{})
		require.Zero(t, f.count("watchdog.sessions.behind"))
	})
}

// TestCommand checks that the trips of commands are measured.
func TestCommand(t *testing.T) {
	for _, c := range []struct {
		name   string
		action stall.TripAction
		inside bool
	}{
		{"ended, in a measured run", stall.ActionFail, true},
		{"ended, outside of a run", stall.ActionFail, false},
		{"ignored, in a measured run", stall.ActionIgnore, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			ctx := f.instrument.Commands(context.Background())
			cfg := stall.Config{
				Step: "step", NoOutput: 100 * time.Millisecond, OnStall: c.action, Logger: quiet,
				WallClock: time.Second, Grace: []stall.Step{{Signal: syscall.SIGINT}, {Signal: syscall.SIGTERM}},
			}
			if c.inside {
				ctx = f.attach(watchdog.Config{}).Context()
			} else {
				cfg.RunID, cfg.Store = "s-1", f.store
			}
			_, err := stall.Run(ctx, exec.Command("sleep", "60"), cfg)
			code := watchdog.CommandNoOutput
			ignored := c.action == stall.ActionIgnore
			if ignored {
				require.ErrorIs(t, err, watchdog.WallClockExceeded)
				code = watchdog.WallClockExceeded
			} else {
				require.ErrorIs(t, err, code)
			}
			layer := attribute.Bool("watchdog.layer", true)
			require.EqualValues(t, 1, f.count("watchdog.trips.total", reason(watchdog.CommandNoOutput), layer,
				attribute.Bool("watchdog.observe_only", ignored)))
			require.Zero(t, f.count("watchdog.runs.live", layer))
			require.Len(t, f.spans(), 1, "it has ended when Run returns")
			span := f.spans()[0]
			require.Equal(t, "s-1/step", attributeOf(span, "watchdog.run.id"))
			require.Equal(t, string(code), attributeOf(span, "watchdog.reason"))
			require.Equal(t, c.inside, span.Parent.IsValid())
		})
	}
}

// BenchmarkRun measures a run from its attach to its close: without an instrument, with providers that do nothing, with
// metrics, and with metrics and spans.
func BenchmarkRun(b *testing.B) {
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	for _, variant := range []struct {
		name string
		cfg  *otelwatchdog.Config
	}{
		{"unmeasured", nil},
		{"noop", &otelwatchdog.Config{
			MeterProvider: noop.NewMeterProvider(), TracerProvider: tracenoop.NewTracerProvider(),
		}},
		{"metrics", &otelwatchdog.Config{MeterProvider: meters, TracerProvider: tracenoop.NewTracerProvider()}},
		{"metrics and spans", &otelwatchdog.Config{MeterProvider: meters, TracerProvider: trace.NewTracerProvider()}},
	} {
		b.Run(variant.name, func(b *testing.B) {
			attach := unmeasured
			if variant.cfg != nil {
				instrument, err := otelwatchdog.New(*variant.cfg)
				require.NoError(b, err)
				attach = func(ctx context.Context, run watchdog.Run, cfg watchdog.Config) (closer, error) {
					return instrument.Attach(ctx, run, cfg)
				}
			}
			benchmarkRuns(b, attach)
		})
	}
}

type closer interface{ Close() error }

func unmeasured(ctx context.Context, run watchdog.Run, cfg watchdog.Config) (closer, error) {
	return watchdog.New(ctx, run, cfg)
}

func benchmarkRuns(b *testing.B, attach func(context.Context, watchdog.Run, watchdog.Config) (closer, error)) {
	b.Helper()
	b.ReportAllocs()
	cfg, started := watchdog.Config{Store: &watchdog.Memory{}, Logger: quiet}, time.Now()
	for n := 0; b.Loop(); n++ {
		wd, err := attach(b.Context(), watchdog.Run{ID: "s-" + strconv.Itoa(n), StartedAt: started}, cfg)
		if err != nil {
			b.Fatal(err)
		}
		wd.Close()
	}
}

// BenchmarkActivity measures a signal of a run with an instrument. It costs the same as without one.
func BenchmarkActivity(b *testing.B) {
	wd := newFixture(b).attach(laddered)
	b.ReportAllocs()
	for b.Loop() {
		wd.Activity()
	}
}
