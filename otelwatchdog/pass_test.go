package otelwatchdog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// secret stands where a pass has words that are not to be told.
const secret = "canary-7f3a"

// tellPass tells of a pass whose counts are all different.
func tellPass(b *bed) {
	b.instrument.Pass(sweep.Pass{
		Tally:    sweep.Tally{Checked: 90, Found: 50, Cancelled: 10, Spared: 3, Failed: 2, Warned: 7, Deferred: 28, Resumed: 4, Errors: 5},
		Duration: 1500 * time.Microsecond,
		Cases:    []sweep.Case{{Session: session.Session{RunID: secret, Host: secret}}},
		Errs:     []error{errors.New(secret)},
		Err:      errors.New(secret),
	})
}

func TestPass(t *testing.T) {
	t.Run("what it came to is counted, each by itself", func(t *testing.T) {
		b := newBed(t)
		tellPass(b)
		tellPass(b)
		for name, want := range map[string]int64{
			"watchdog.checks.total": 1, "watchdog.sessions.checked": 90, "watchdog.sessions.found": 50, "watchdog.sessions.canceled": 10,
			"watchdog.sessions.spared": 3, "watchdog.sessions.failed": 2, "watchdog.sessions.warned": 7, "watchdog.sessions.resumed": 4,
			"watchdog.errors.total": 5,
		} {
			require.Equal(t, 2*want, b.count(name), name)
		}
		points := b.metrics()["watchdog.duration.ms"].Data.(metricdata.Histogram[float64]).DataPoints
		require.Len(t, points, 1)
		require.EqualValues(t, 2, points[0].Count)
		require.InDelta(t, 3, points[0].Sum, 1e-9)
	})
	t.Run("one that came to nothing is told as well", func(t *testing.T) {
		b := newBed(t)
		b.instrument.Pass(sweep.Pass{})
		require.EqualValues(t, 1, b.count("watchdog.checks.total"))
		require.Contains(t, b.metrics(), "watchdog.sessions.canceled", "a rate needs a beginning")
		require.Zero(t, b.count("watchdog.sessions.canceled"))
	})
	t.Run("a sweeper tells of each of its own", func(t *testing.T) {
		inBed(t, func(b *bed) {
			failing := broken{}
			sweeper, err := sweep.New(failing, failing, sweep.Config{OnPass: b.instrument.Pass, Logger: quiet})
			require.NoError(t, err)
			_, err = sweeper.Sweep(context.Background())
			require.ErrorIs(t, err, errBroken)
			require.EqualValues(t, 1, b.count("watchdog.checks.total"))
			require.EqualValues(t, 1, b.count("watchdog.errors.total"))
		})
	})
}

var errBroken = errors.New("broken")

// A broken database fails.
type broken struct{}

func (broken) Stalled(context.Context, session.Query) (session.Page, error) {
	return session.Page{}, errBroken
}

func (broken) Cancel(context.Context, session.Session, session.CancelRequest) (bool, error) {
	return false, errBroken
}
