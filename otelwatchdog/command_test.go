package otelwatchdog_test

import (
	"context"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

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
