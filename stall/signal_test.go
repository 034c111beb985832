package stall_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

func TestParseSignal(t *testing.T) {
	for _, text := range []string{"SIGTERM", "term", "15"} {
		sig, err := stall.ParseSignal(text)
		require.NoError(t, err)
		require.Equal(t, syscall.SIGTERM, sig)
		require.Equal(t, "SIGTERM", stall.SignalName(sig))
	}
	_, err := stall.ParseSignal("NONE")
	require.ErrorIs(t, err, watchdog.ErrInvalid)
	require.EqualError(t, err, `signal "NONE": is no signal of this system`)
}
