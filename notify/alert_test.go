package notify_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestAlert(t *testing.T) {
	bubble(t, "two alerts of one count are two notices, with the count and the time only", func(t *testing.T) {
		b, r := &box{}, &receiver{}
		alert := sweep.Alert{Count: 5, Within: 10 * time.Minute, Func: notify.Alert(b, 10*time.Minute, nil)}
		alert.Func(t.Context(), 6)
		alert.Func(t.Context(), 6)
		_, err := newSender(t, b, r).Deliver(t.Context())
		require.NoError(t, err)
		require.Len(t, r.ids(), 2)
		assert.Contains(t, r.all()[0].body, `"type":"watchdog.alert"`)
		assert.Contains(t, r.all()[0].body, `"cancels":6,"within_seconds":600,`)
	})
	bubble(t, "a database that fails for a moment", func(t *testing.T) {
		b, log := &box{}, &journal{}
		failures := 2
		b.onCall(func(context.Context, string) error {
			if failures--; failures >= 0 {
				return errDown
			}
			return nil
		})
		notify.Alert(b, time.Minute, log.logger())(t.Context(), 6)
		assert.Equal(t, 1, b.left())
		assert.Empty(t, log.String())
	})
	bubble(t, "one that stays down is an error in the log", func(t *testing.T) {
		b, log := &box{}, &journal{}
		b.onCall(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		began := time.Now()
		notify.Alert(b, time.Minute, log.logger())(t.Context(), 6)
		assert.Less(t, time.Since(began), sweep.DefaultStopTimeout)
		assert.Contains(t, log.String(), "level=ERROR")
		assert.Contains(t, log.String(), "cancels=6 within=1m0s")
	})
	bubble(t, "it ends with its context", func(t *testing.T) {
		b, log := &box{}, &journal{}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		notify.Alert(b, time.Minute, log.logger())(ctx, 6)
		assert.Zero(t, time.Since(began))
		assert.Contains(t, log.String(), "nobody is told")
	})
}
