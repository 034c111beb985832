package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
)

func TestRejectedFiles(t *testing.T) {
	var all strings.Builder
	for _, test := range rejectedFiles {
		t.Run(test.sentence, func(t *testing.T) {
			c, err := config.Parse(file, []byte(test.text), config.NoEnvironment)
			require.Nil(t, c)
			fault := only(t, err)
			require.Equal(t, file, fault.File)
			require.Equal(t, test.line, fault.Line)
			require.Equal(t, test.key, fault.Key)
			require.Equal(t, test.value, fault.Value)
			require.Empty(t, fault.Variable)
			fmt.Fprintf(&all, "%s:\n\t%v\n", test.sentence, err)
		})
	}
	golden(t, "rejected_files.golden", all.String())
}

// only returns the single error.
func only(t *testing.T, err error) *config.Error {
	t.Helper()
	faults := faults(t, err)
	require.Len(t, faults, 1, "%v", err)
	return faults[0]
}

func faults(t *testing.T, err error) []*config.Error {
	t.Helper()
	require.Error(t, err)
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok)
	var faults []*config.Error
	for _, err := range joined.Unwrap() {
		var fault *config.Error
		require.ErrorAs(t, err, &fault)
		faults = append(faults, fault)
	}
	return faults
}

// TestErrorsTogether expects all errors of a file and the environment in one error.
func TestErrorsTogether(t *testing.T) {
	text := strings.Join([]string{
		"runtime_controls:",
		"  warn_at: [0.5, 2]",
		"  reserve_seconds: -1",
		"  sesion_wall_clock_seconds: 60",
		"  session_wall_clock_seconds: true",
		"runtime_controls: {}",
	}, "\n")
	_, err := config.Parse(file, []byte(text), environment(map[string]string{
		"WATCHDOG_RESERVE_SECONDS": "1m",
		"WATCHDOG_WARN_AT":         "none",
	}))
	golden(t, "rejected_together.golden", err.Error()+"\n")

	var lines []int
	for _, fault := range faults(t, err) {
		lines = append(lines, fault.Line)
	}
	require.Equal(t, []int{2, 3, 4, 5, 6, 0, 0}, lines)
}

// TestErrorsCut expects twenty errors and one that counts the others.
func TestErrorsCut(t *testing.T) {
	lines := func(count int) []byte {
		return []byte("runtime_controls:\n" + strings.Repeat("  budget: 1\n", count))
	}
	_, err := config.Parse(file, lines(20), config.NoEnvironment)
	require.Len(t, faults(t, err), 20)

	_, err = config.Parse(file, lines(10_000), environment(map[string]string{"WATCHDOG_WARN_AT": "80"}))
	cut := faults(t, err)
	require.Len(t, cut, 21)
	require.Equal(t, "limits.yaml:22: here and after it are 9981 more errors, which are not listed", cut[20].Error())
	require.Less(t, len(err.Error()), 20_000)

	_, err = config.Parse(file, lines(20), environment(map[string]string{"WATCHDOG_WARN_AT": "80"}))
	require.EqualError(t, faults(t, err)[20], "environment WATCHDOG_WARN_AT: here is 1 more error, which is not listed")
}

// TestInvalidBudget finds the error of Budget.Validate in the chain.
func TestInvalidBudget(t *testing.T) {
	_, err := config.Parse(file, []byte("runtime_controls: {reserve_seconds: 14401}"), config.NoEnvironment)
	require.ErrorIs(t, err, watchdog.ErrInvalid)
}

// TestParserError finds the error of the YAML parser in the chain.
func TestParserError(t *testing.T) {
	_, err := config.Parse(file, []byte("{"), config.NoEnvironment)
	require.Error(t, errors.Unwrap(only(t, err)))
}
