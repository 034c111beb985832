package main_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunConfig(t *testing.T) {
	t.Parallel()
	const stallBlock = "stall:\n  no_output_timeout: 1s\n  first_signal: TERM\n  fingerprint_prefix: ci\n"
	const steps = "steps:\n  build:\n    stall:\n      terminal_patterns: ['^ready$']\n  test: {}\n"
	for _, c := range []struct {
		name, file, flags, variable string
		status                      int
		says                        string
	}{
		{"the stall block counts", stallBlock, "", "", 124, " TIME of 1 s: ended by SIGTERM"},
		{"a variable wins over the file", stallBlock, "", "WATCHDOG_STALL_FIRST_SIGNAL=INT", 124, "ended by SIGINT"},
		{"a signal of a flag wins over the file", stallBlock, "--signal HUP", "", 124, "ended by SIGHUP"},
		{"a flag that switches off wins over the file", stallBlock, "--no-output 0 --wall-clock 2s", "", 124,
			"ran TIME of 2 s: ended"},
		{"a flag wins over a variable", "", "--no-output 0 --wall-clock 2s", "WATCHDOG_STALL_NO_OUTPUT_TIMEOUT=1s", 124,
			"ran TIME of 2 s: ended"},
		{"a variable counts without a file", "", "", "WATCHDOG_STALL_NO_OUTPUT_TIMEOUT=1s", 124,
			" TIME of 1 s: ended by SIGINT"},
		{"patterns on the command line replace those of the file", "stall:\n  terminal_patterns: [never, ready]\n",
			"--terminal ^ready$", "", 124, "terminal pattern 1"},
		{"the wall clock of sessions counts if it is set", "runtime_controls:\n  session_wall_clock_seconds: 1\n", "", "", 124,
			"ran TIME of 1 s: ended"},
		{"a step of a workflow is chosen by its name", steps, "--step build", "", 124, "terminal pattern 1"},
		{"a step that is not in the file is an error", steps, "--step built", "", 125,
			`--step "built": limits.yaml has the steps build, test; name one of them`},
		{"a file that is wrong is an error", "stall:\n  no_output: 1s\n", "", "", 125, "limits.yaml:2: stall.no_output"},
		{"a variable that is wrong is an error", "", "", "WATCHDOG_STALL_NO_OUTPUT_TIMOUT=1s", 125,
			"did you mean WATCHDOG_STALL_NO_OUTPUT_TIMEOUT?"},
		{"the one switch switches everything off", stallBlock, "--wall-clock 500ms", "WATCHDOG_DISABLED=true", 5, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			command := []string{"sh", "-c", "echo ready; sleep 20"}
			if c.status == 5 {
				command = []string{"sh", "-c", "echo ready; sleep 2; exit 5"}
			}
			flags := c.flags
			if c.file != "" {
				require.NoError(t, os.WriteFile(f.path("limits.yaml"), []byte(c.file), 0o600))
				flags += " --config limits.yaml"
			}
			cmd := f.cmd(flags, command...)
			cmd.Env = append(cmd.Env, c.variable)
			o := finish(t, cmd).must(t, c.status)
			stderr := lengths.ReplaceAllString(strings.ReplaceAll(o.stderr, f.dir+"/", ""), "$1 TIME of")
			assert.Contains(t, stderr, c.says)
			assert.Equal(t, c.says == "", stderr == "")
		})
	}
}
