package watchdoghttp_test

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/watchdoghttp"
)

// TestInsideTimer checks that an exchange is a sign of life of a timer of package idle in its context.
func TestInsideTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, timer := idle.WithLimit(t.Context(), time.Minute)
		defer timer.Close()
		body := filtered(ctx, t, &watchdoghttp.Transport{Idle: watchdog.NoLimit}, every(t, time.Minute, "a", "b", "c"))
		chunk := make([]byte, 8)
		for range 3 {
			_, err := io.ReadAtLeast(body.Body, chunk, 1)
			require.NoError(t, err)
		}
		require.NoError(t, ctx.Err())
		time.Sleep(time.Minute + 1)
		synctest.Wait()
		_, stopped := timer.Stopped()
		require.True(t, stopped)
	})
}
