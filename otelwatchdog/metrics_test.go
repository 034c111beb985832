package otelwatchdog_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/otelwatchdog"
)

func TestTheMetricsHaveTheirNamesUnitsAndAttributes(t *testing.T) {
	inBed(t, func(b *bed) {
		tellEverything(b)
		var lines strings.Builder
		all := b.metrics()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			m := all[name]
			kind, keys := describe(m.Data)
			fmt.Fprintf(&lines, "%s\t%s\t%s\t%s\t%s\n", name, kind, m.Unit, strings.Join(keys, " "), m.Description)
		}
		requireGolden(b.t.(*testing.T), "metrics.tsv", lines.String())
	})
}

// tellEverything has each metric told, in a bubble.
func tellEverything(b *bed) {
	b.attach(laddered)
	after(20*minute + 2)
	abandon(b, &bound.Calls{})
	tellPass(b)
}

// abandon has a call abandoned that ends afterwards.
func abandon(b *bed, calls *bound.Calls) {
	b.instrument.Calls(calls)
	abandonOne(calls)
}

func abandonOne(calls *bound.Calls) {
	end := make(chan struct{})
	bound.Do(context.Background(), bound.Call{Calls: calls, Limit: minute, Grace: minute, Logger: quiet},
		func(context.Context) (int, error) { <-end; return 0, nil })
	close(end)
	synctest.Wait()
}

// describe is the kind of a metric and the keys of its attributes.
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
	case metricdata.Histogram[float64]:
		kind = "histogram"
		for _, point := range data.DataPoints {
			see(point.Attributes)
		}
	}
	return kind, slices.Sorted(maps.Keys(seen))
}

func TestLiveRuns(t *testing.T) {
	live := func(b *bed, layer bool) int64 {
		return b.count("watchdog.runs.live", attribute.Bool("watchdog.layer", layer))
	}
	t.Run("a run is live until its context ends, however that does", func(t *testing.T) {
		for name, end := range ends {
			t.Run(name, func(t *testing.T) {
				inBed(t, func(b *bed) {
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					wd := b.attachIn(ctx, "s-1", laddered)
					require.EqualValues(t, 1, live(b, false))
					end.how(wd, cancel)
					synctest.Wait()
					require.Zero(t, live(b, false))
					require.NoError(t, wd.Close())
					require.Zero(t, live(b, false), "it ends once")
				})
			})
		}
	})
	t.Run("layers are counted apart", func(t *testing.T) {
		inBed(t, func(b *bed) {
			layer, err := b.attach(laddered).Layer("step", watchdog.Budget{})
			require.NoError(t, err)
			require.EqualValues(t, 1, live(b, false))
			require.EqualValues(t, 1, live(b, true))
			require.NoError(t, layer.Close())
			require.EqualValues(t, 1, live(b, false))
			require.Zero(t, live(b, true))
		})
	})
	t.Run("a run that cannot be attached never was", func(t *testing.T) {
		inBed(t, func(b *bed) {
			_, err := b.instrument.Attach(context.Background(), watchdog.Run{ID: " "}, watchdog.Config{Store: b.store})
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			_, err = b.attach(laddered).Layer("a/b", watchdog.Budget{})
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.EqualValues(t, 1, live(b, false), "the run around the layer")
			require.Zero(t, live(b, true))
			require.Empty(t, b.spans())
		})
	})
	t.Run("runs cost no goroutine", func(t *testing.T) {
		b := newBed(t)
		b.attach(laddered) // the alarm's
		before := runtime.NumGoroutine()
		for n := range 1000 {
			wd := b.attachIn(context.Background(), fmt.Sprint("s-", n), laddered)
			_, cancel := context.WithCancel(wd.Context()) // as work in it does
			t.Cleanup(cancel)
		}
		require.LessOrEqual(t, runtime.NumGoroutine(), before+5)
	})
}

func TestTrips(t *testing.T) {
	const trips = "watchdog.trips.total"
	observed := func(is bool) attribute.KeyValue { return attribute.Bool("watchdog.observe_only", is) }
	t.Run("each is counted once, by limit and directive", func(t *testing.T) {
		inBed(t, func(b *bed) {
			wd := b.attach(laddered)
			after(10*minute + 1)
			require.EqualValues(t, 1, b.count(trips, reason(watchdog.IdleExceeded), directive(watchdog.DirectiveRetry)))
			require.Zero(t, b.count(trips, directive(watchdog.DirectiveCancel)))
			after(10*minute + 1)
			require.EqualValues(t, 1, b.count(trips, reason(watchdog.IdleExceeded), directive(watchdog.DirectiveCancel), observed(false)))
			require.NoError(t, wd.Close())
			require.EqualValues(t, 2, b.count(trips))
		})
	})
	t.Run("a cancel that is only observed says so", func(t *testing.T) {
		inBed(t, func(b *bed) {
			wd := b.attach(watchdog.Config{ObserveOnly: true, Budget: watchdog.Budget{WallClock: minute}})
			after(minute + 1)
			require.NoError(t, wd.Context().Err())
			require.EqualValues(t, 1, b.count(trips, reason(watchdog.WallClockExceeded), directive(watchdog.DirectiveCancel), observed(true)))
			require.EqualValues(t, 1, b.count(trips))
		})
	})
	t.Run("a cancel from another host is counted here as well", func(t *testing.T) {
		inBed(t, func(b *bed) {
			here, there := b.attach(laddered), b.attach(laddered)
			_, err := there.Cancel(watchdog.Cancellation{Reason: watchdog.SessionIdleTimeout})
			require.NoError(t, err)
			_, err = here.Sync(context.Background())
			require.NoError(t, err)
			synctest.Wait()
			require.EqualValues(t, 2, b.count(trips, reason(watchdog.SessionIdleTimeout), directive(watchdog.DirectiveCancel)))
		})
	})
	t.Run("one that was stored before the attach is not", func(t *testing.T) {
		inBed(t, func(b *bed) {
			cfg := watchdog.Config{Budget: watchdog.Budget{WallClock: minute}}
			start := time.Now()
			b.attach(cfg)
			after(minute + time.Second)
			again(b, start, cfg)
			require.EqualValues(t, 1, b.count(trips))
			require.Zero(t, b.count("watchdog.runs.live"))
			require.Len(t, b.spans(), 2)
			require.Empty(t, b.spans()[1].Events)
			require.Equal(t, string(watchdog.WallClockExceeded), b.spans()[1].Status.Description)
		})
	})
	t.Run("one that the attach itself finds is", func(t *testing.T) {
		inBed(t, func(b *bed) {
			start := time.Now()
			after(2 * minute)
			again(b, start, watchdog.Config{Budget: watchdog.Budget{WallClock: minute}})
			require.EqualValues(t, 1, b.count(trips))
			n, late := b.latenesses()
			require.EqualValues(t, 1, n)
			require.InDelta(t, 60_000, late, 0.001)
		})
	})
	t.Run("they are told on the goroutine that finds them where nothing else may be", func(t *testing.T) {
		b := newBed(t)
		mock := clock.NewMock()
		mock.Set(time.Now().Add(-24 * time.Hour)) // the run's clock tells what was before its attach
		cfg := laddered
		cfg.PollOnly, cfg.Clock = true, mock
		wd := b.attach(cfg)
		mock.Add(11 * minute)
		_, _ = wd.Fired()
		require.EqualValues(t, 1, b.count(trips, directive(watchdog.DirectiveRetry)))
		mock.Add(11 * minute)
		_, fired := wd.Fired()
		require.True(t, fired)
		require.NoError(t, wd.Close())
		require.EqualValues(t, 1, b.count(trips, directive(watchdog.DirectiveCancel)))
		_, late := b.latenesses()
		require.InDelta(t, 120_000, late, 0.001, "a minute each")
	})
	t.Run("hosts' own codes are kept apart as long as they are few", func(t *testing.T) {
		inBed(t, func(b *bed) {
			for n := range otelwatchdog.MaxHostReasons + 5 {
				wd := b.attachIn(context.Background(), fmt.Sprint("s-", n), laddered)
				_, err := wd.Cancel(watchdog.Cancellation{Reason: watchdog.StopReason(fmt.Sprint("out_of_tokens_", n))})
				require.NoError(t, err)
				require.NoError(t, wd.Close())
			}
			wd := b.attachIn(context.Background(), "s-last", laddered)
			_, err := wd.Cancel(watchdog.Cancellation{Reason: watchdog.GradeRegressing})
			require.NoError(t, err)
			require.NoError(t, wd.Close())
			require.EqualValues(t, 1, b.count(trips, reason("out_of_tokens_0")))
			require.EqualValues(t, 5, b.count(trips, reason(otelwatchdog.OtherReason)))
			require.EqualValues(t, 1, b.count(trips, reason(watchdog.GradeRegressing)), "the taxonomy is never other")
			require.Len(t, b.metrics()[trips].Data.(metricdata.Sum[int64]).DataPoints, otelwatchdog.MaxHostReasons+2)
		})
	})
}

// again attaches to the first run once more.
func again(b *bed, start time.Time, cfg watchdog.Config) {
	cfg.Store, cfg.Logger = b.store, quiet
	wd, err := b.instrument.Attach(context.Background(), watchdog.Run{ID: "s-1", StartedAt: start}, cfg)
	require.NoError(b.t, err)
	require.NoError(b.t, wd.Close())
}

func TestLateness(t *testing.T) {
	t.Run("it is what was used beyond the limit", func(t *testing.T) {
		inBed(t, func(b *bed) {
			cfg := laddered
			cfg.Clock = clock.New() // looked at by hand, in the bubble's time
			cfg.PollOnly = true
			wd := b.attach(cfg)
			after(10*minute + 7*time.Second)
			_, fired := wd.Fired()
			require.False(t, fired)
			n, sum := b.latenesses(reason(watchdog.IdleExceeded), directive(watchdog.DirectiveRetry))
			require.EqualValues(t, 1, n)
			require.InDelta(t, 7_000, sum, 0.001)
		})
	})
	t.Run("a cancel of a guard without a limit is neither late nor in time", func(t *testing.T) {
		inBed(t, func(b *bed) {
			wd := b.attach(laddered)
			_, err := wd.Cancel(watchdog.Cancellation{Reason: watchdog.CommandTerminal})
			require.NoError(t, err)
			synctest.Wait()
			require.EqualValues(t, 1, b.count("watchdog.trips.total"))
			n, _ := b.latenesses()
			require.Zero(t, n)
		})
	})
	t.Run("a guard that cancels before its limit is not late", func(t *testing.T) {
		inBed(t, func(b *bed) {
			wd := b.attach(laddered)
			_, err := wd.Cancel(watchdog.Cancellation{Reason: watchdog.CommandNoProgress, Elapsed: time.Second, Budget: minute})
			require.NoError(t, err)
			synctest.Wait()
			n, sum := b.latenesses()
			require.EqualValues(t, 1, n)
			require.Zero(t, sum)
		})
	})
}

func TestAbandonedCalls(t *testing.T) {
	t.Run("those of all accounts are one count", func(t *testing.T) {
		inBed(t, func(b *bed) {
			var one, other bound.Calls
			abandon(b, &one)
			abandon(b, &other)
			abandon(b, &other) // again, which changes nothing
			b.instrument.Calls(nil)
			require.EqualValues(t, 3, b.count("watchdog.calls.abandoned"))
			require.Zero(t, b.count("watchdog.calls.outstanding"))
		})
	})
	t.Run("those that have not ended are outstanding", func(t *testing.T) {
		inBed(t, func(b *bed) {
			var calls bound.Calls
			b.instrument.Calls(&calls)
			end := make(chan struct{})
			bound.Do(context.Background(), bound.Call{Calls: &calls, Limit: minute, Grace: minute, Logger: quiet},
				func(context.Context) (int, error) { <-end; return 0, nil })
			require.EqualValues(t, 1, b.count("watchdog.calls.outstanding"))
			close(end)
			synctest.Wait()
			require.Zero(t, b.count("watchdog.calls.outstanding"))
			require.EqualValues(t, 1, b.count("watchdog.calls.abandoned"))
		})
	})
	t.Run("without an account nothing is told", func(t *testing.T) {
		require.NotContains(t, newBed(t).metrics(), "watchdog.calls.abandoned")
	})
}

func TestProviders(t *testing.T) {
	t.Run("a run that outlives them goes on untold", func(t *testing.T) {
		inBed(t, func(b *bed) {
			var calls bound.Calls
			b.instrument.Calls(&calls)
			wd := b.attach(laddered)
			require.NoError(t, b.meters.Shutdown(context.Background()))
			require.NoError(t, b.tracers.Shutdown(context.Background()))
			after(10*minute + 1)
			d, ok := wd.Poll()
			require.True(t, ok)
			require.Equal(t, watchdog.DirectiveRetry, d.Kind)
			later := b.attachIn(context.Background(), "s-2", laddered)
			abandonOne(&calls)
			tellPass(b)
			require.NoError(t, wd.Close())
			require.NoError(t, later.Close())
			require.Empty(t, b.spans())
		})
	})
	t.Run("without any the global ones are told", func(t *testing.T) {
		b := newBed(t)
		meters, tracers := otel.GetMeterProvider(), otel.GetTracerProvider()
		otel.SetMeterProvider(b.meters)
		otel.SetTracerProvider(b.tracers)
		defer otel.SetMeterProvider(meters)
		defer otel.SetTracerProvider(tracers)
		instrument, err := otelwatchdog.New(otelwatchdog.Config{})
		require.NoError(t, err)
		b.instrument = instrument
		wd := b.attach(laddered)
		require.EqualValues(t, 1, b.count("watchdog.runs.live"))
		require.NoError(t, wd.Close())
		require.Len(t, b.spans(), 1)
	})
	t.Run("one that refuses a metric is an error", func(t *testing.T) {
		for _, refused := range []string{
			"watchdog.runs.live", "watchdog.trips.total", "watchdog.lateness.ms", "watchdog.calls.abandoned", "watchdog.calls.outstanding", "callback",
			"watchdog.checks.total", "watchdog.sessions.canceled", "watchdog.duration.ms",
		} {
			_, err := otelwatchdog.New(otelwatchdog.Config{MeterProvider: &refusing{name: refused}})
			require.ErrorIs(t, err, errRefused, refused)
		}
	})
	t.Run("a reader that wants differences gets them", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			b.reader = sdkmetric.NewManualReader(sdkmetric.WithTemporalitySelector(sdkmetric.DeltaTemporalitySelector))
			b.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.reader))
			instrument, err := otelwatchdog.New(otelwatchdog.Config{MeterProvider: b.meters, TracerProvider: b.tracers})
			require.NoError(t, err)
			b.instrument = instrument
			var calls bound.Calls
			abandon(b, &calls)
			require.EqualValues(t, 1, b.count("watchdog.calls.abandoned"))
			require.Zero(t, b.count("watchdog.calls.abandoned"))
		})
	})
}
