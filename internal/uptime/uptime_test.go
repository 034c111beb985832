package uptime_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/uptime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMachine(t *testing.T) {
	if !uptime.Exact {
		t.Skip("only Linux counts sleep exactly")
	}
	require.True(t, uptime.Start(time.Now()).Machine())
	require.True(t, uptime.Start(time.Now()).Machine(), "from the kept sample of the first call too")
	require.False(t, uptime.At(time.Now()).Machine())
	require.False(t, uptime.Start(time.Now().AddDate(-20, 0, 0)).Machine())
	synctest.Test(t, func(t *testing.T) {
		require.False(t, uptime.Start(time.Now()).Machine(), "a bubble's clock is not the machine's")
	})
}

func TestSleptAwake(t *testing.T) {
	mark := uptime.Start(time.Now())
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
		require.Zero(t, mark.Slept(time.Now()))
	}
	synctest.Test(t, func(t *testing.T) {
		mark := uptime.Start(time.Now())
		time.Sleep(1000 * time.Hour)
		require.Zero(t, mark.Slept(time.Now()), "fake time is not sleep")
	})
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		uptime.Start(time.Now())
	}
}
