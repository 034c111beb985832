package otelwatchdog_test

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/sweep"
)

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
