package wording_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/wording"
)

func TestAmount(t *testing.T) {
	for _, c := range []struct {
		n              int64
		currency, want string
	}{
		{0, "", "0"}, {999, "", "999"}, {1234567, "", "1,234,567"}, {6_400_000, "EUR", "6.40 EUR"},
		{0, "EUR", "0.00 EUR"}, {1, "EUR", "0.000001 EUR"}, {169_389, "USD", "0.169389 USD"},
		{1_234_567_500_000, "EUR", "1,234,567.50 EUR"}, {50_000, "EUR", "0.05 EUR"},
	} {
		require.Equal(t, c.want, wording.Amount(c.n, c.currency))
	}
}

// TestLength shows that what was used is never less than the limit that it exceeds, however both are rounded.
func TestLength(t *testing.T) {
	for _, c := range []struct {
		used, limit time.Duration
		want        string
	}{
		{4*time.Hour + time.Second, 4 * time.Hour, "4 h 0 min 1 s of 4 h"},
		{4*time.Hour + 1, 4 * time.Hour, "4 h 0 min 0 s of 4 h"},
		{90*time.Minute + 30*time.Second, 90 * time.Minute, "1 h 30 min 30 s of 1 h 30 min"},
		{2*time.Second + 3*time.Millisecond, 2 * time.Second, "2.0 s of 2 s"},
		{2*time.Second + 51*time.Millisecond, 2*time.Second + 50*time.Millisecond, "2.05 s of 2.05 s"},
		{time.Minute + 1, time.Minute, "1 min 0 s of 1 min"}, {61 * time.Second, 59500 * time.Millisecond, "1 min 1 s of 59.5 s"},
		{301 * time.Millisecond, 300 * time.Millisecond, "301 ms of 300 ms"}, {30 * time.Microsecond, 1, "30 µs of 1 ns"},
		{7100 * time.Millisecond, time.Millisecond, "7.1 s of 1 ms"}, {1, 1, "1 ns of 1 ns"},
		{time.Second + 1, time.Second, "1.0 s of 1 s"},
	} {
		require.Equal(t, c.want, wording.Used(c.used, c.limit)+" of "+wording.Length(c.limit))
	}
}

// TestStop says the sentence of each code of the taxonomy.
func TestStop(t *testing.T) {
	for code, want := range map[watchdog.StopReason]string{
		watchdog.WallClockExceeded:  "ran 2.0 s of 2 s",
		watchdog.SafetyExceeded:     "ran from this attach for 2.0 s of 2 s",
		watchdog.IdleExceeded:       "no sign of life for 2.0 s of 2 s",
		watchdog.NoProgressExceeded: "no progress for 2.0 s of 2 s",
		watchdog.HoldExceeded:       "a hold was open for 2.0 s of 2 s",
		watchdog.CommandNoOutput:    "no output for 2.0 s of 2 s",
		watchdog.SessionIdleTimeout: "nothing new for 2.0 s of 2 s",
		watchdog.SessionHostLost:    "its process was found dead or cut off, and nothing new for 2.0 s of 2 s",
	} {
		require.Equal(t, want, wording.Stop(record.Reason(string(code)), 2*time.Second+1, 2*time.Second, ""))
	}
	for _, code := range watchdog.StopReasons() {
		reason := record.Reason(string(code))
		meaning := wording.Meaning(reason)
		require.NotEmpty(t, meaning, code)
		require.Equal(t, meaning, wording.Stop(reason, 0, 0, ""))
		if text := wording.Stop(reason, 2*time.Second, time.Second, ""); !code.Timeout() || !code.Own() {
			require.Equal(t, meaning+", after 2.0 s of 1 s", text)
		}
	}
	for want, got := range map[string]string{
		`hold "build" was open for 2.0 s of 1 s`:           wording.Stop("hold_exceeded", 2*time.Second, time.Second, "build"),
		`no sign of life for 2.0 s of 1 s in hold "build"`: wording.Stop("idle_exceeded", 2*time.Second, time.Second, "build"),
		"no output for more than 1 s":                      wording.Stop("no_output", 0, time.Second, ""),
		"no output at all for 1.0 s of 1 s":                wording.Stop(wording.NeverOutput, time.Second, time.Second, ""),
		"no output for 2.0 s":                              wording.Stop("no_output", 2*time.Second, 0, ""),
		"after 2.0 s of 1 s":                               wording.Stop("of_another", 2*time.Second, time.Second, ""),
		"":                                                 wording.Stop("of_another", 0, 0, ""),
	} {
		require.Equal(t, want, got)
	}
}
