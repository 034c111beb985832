package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/stall"
)

// TestStallNeverFires expects an error for every setting of a stall block without a signal.
func TestStallNeverFires(t *testing.T) {
	text := "stall:\n  on_stall: fail\n  probe:\n    interval: 5s\n    timeout: 1s\n  keep_background: true\n"
	_, err := config.Parse(file, []byte(text), config.NoEnvironment)
	var lines []int
	for _, fault := range faults(t, err) {
		lines = append(lines, fault.Line)
	}
	require.Equal(t, []int{2, 4, 5, 6}, lines)
}

// tunedStall is a sentinel with one signal and all settings that need it.
const tunedStall = `stall:
  no_output_timeout: 5m
  activity_source: stderr
  on_stall: fail
  interrupt_grace: 1s
  terminate_grace: 0
  also_end: {command: [x]}
  keep_background: true
  fingerprint_prefix: ci
`

func TestVariableDisablesStall(t *testing.T) {
	t.Run("a signal that is off disables its settings, but not those with another use", func(t *testing.T) {
		c, err := config.Parse(file, []byte(tunedStall), environment(variables{noOutputVariable: "0"}))
		require.NoError(t, err)
		grace := graces(time.Second, 0)
		alsoEnd := &stall.AlsoEnd{Command: []string{"x"}}
		require.Equal(t, stall.Config{KeepBackground: true, Grace: grace, AlsoEnd: alsoEnd}, c.Stall)
		golden(t, "disabled_stall.golden", sentinel(c))
	})
	t.Run("a probe is another signal", func(t *testing.T) {
		c, err := config.Parse(file, []byte(everyStall), environment(variables{noOutputVariable: "0"}))
		require.NoError(t, err)
		golden(t, "disabled_stall_probe.golden", sentinel(c))
	})
	t.Run("ignored probe errors disable their threshold", func(t *testing.T) {
		const variable = "WATCHDOG_STALL_PROBE_ON_PROBE_ERROR"
		c, err := config.Parse(file, []byte(everyStall), environment(variables{variable: "ignore"}))
		require.NoError(t, err)
		require.Zero(t, c.Stall.Probe.ErrorThreshold)
		require.Contains(t, settings(c), [3]string{"stall.probe.probe_error_threshold", "3", "environment " + variable})
	})
	t.Run("a variable may be the signal that the file's settings need", func(t *testing.T) {
		c, err := config.Parse(file, []byte("stall: {on_stall: fail}"), environment(variables{noOutputVariable: "5m"}))
		require.NoError(t, err)
		require.Equal(t, stall.ActionFail, c.Stall.OnStall)
	})
}
