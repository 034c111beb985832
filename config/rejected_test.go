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

var rejections = []struct {
	golden, form string // what the text of a row stands in
	all          []row
}{
	{"rejected_files", "%s", rejectedFiles},
	{"rejected_stall", "%s", rejectedStall},
	{"rejected_sweep", "%s", rejectedSweep},
	{"rejected_keeper", "%s", rejectedKeeper},
	{"rejected_variables", "%s", rejectedVariables},
	{"rejected_stall_variables", "%s", rejectedStallVariables},
	{"rejected_sweep_variables", "%s", rejectedSweepVariables},
	{"misspelt_variables", "%s", misspeltVariables},
	{"rejected_disabled", "%s", rejectedDisabled},
	{"nobody_reads", "%s", nobodyReads},
	{"rejected_other_names", "runtime_controls:\n  %s\n", rejectedOtherNames},
	{"rejected_contradictions", "runtime_controls:\n  %s\n", contradictions},
	{"rejected_stall_contradictions", "stall:\n  %s\n", stallContradictions},
	{"rejected_keeper_contradictions", "sweep:\n  %s\n", keeperContradictions},
}

// TestRejected expects one error, with the place, the value and what is allowed, for each text and variable.
func TestRejected(t *testing.T) {
	for _, of := range rejections {
		t.Run(of.golden, func(t *testing.T) {
			var texts strings.Builder
			for _, test := range of.all {
				c, err := config.Loader{Environment: test[2:]}.Parse(file, fmt.Appendf(nil, of.form, test[1]))
				require.Nil(t, c, test[0])
				fmt.Fprintf(&texts, "%s:\n\t%v\n", test[0], only(t, err))
			}
			compare(t, of.golden+".golden", texts.String())
		})
	}
}

// TestErrorFields expects the parts of an error, which its text puts together.
func TestErrorFields(t *testing.T) {
	const allowed = "; allowed: true or false"
	for text, want := range map[string]config.Error{
		"runtime_controls:\n  disabled: yes\n": {
			File: file, Line: 2, Key: "runtime_controls.disabled", Value: "yes", Problem: "is neither true nor false" + allowed,
		},
		"WATCHDOG_DISABLED=1": {
			Variable: "WATCHDOG_DISABLED", Key: "runtime_controls.disabled", Value: `"1"`,
			Problem: "is neither true nor false" + allowed,
		},
		"WATCHDOG_DISABLE=true": {
			Variable: "WATCHDOG_DISABLE", Problem: "is not a variable that is read; did you mean WATCHDOG_DISABLED?",
		},
		"runtime_controls:\n  scopes:\n  - tenant-7\n": {
			File: file, Line: 3, Key: "runtime_controls.scopes[0]", Value: "tenant-7",
			Problem: "is not a mapping; allowed: the keys scope, period, zone, spend",
		},
		"stall:\n  probe:\n    command: [x, 5]\n    interval: 5s\n": {
			File: file, Line: 3, Key: "stall.probe.command", Value: "item 2",
			Problem: "is not a text to every reader; write it in quotes; allowed: a list of the program and its arguments " +
				"such as [kubectl, get, pods, -o, json], or a text for sh -c",
		},
		"steps:\n  a:\n    stall: {no_output_timeout: 5m}\n    stall: {}\n": {
			File: file, Line: 4, Key: "steps.a.stall", Value: "{…}", Problem: "is a second block; the first is in line 3; write one",
		},
		"- a\n": {
			File: file, Line: 1, Problem: "[…] is not a mapping; allowed: blocks such as runtime_controls:",
		},
	} {
		loader := config.Loader{Environment: []string{}}
		if strings.HasPrefix(text, "WATCHDOG_") {
			loader.Environment, text = append(loader.Environment, text), ""
		}
		_, err := loader.Parse(file, []byte(text))
		require.Equal(t, want, *only(t, err))
	}
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
	compare(t, "rejected_together.golden", err.Error()+"\n")

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
