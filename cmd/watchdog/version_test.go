package main_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An outcome is what a run of the program left.
type outcome struct {
	stdout, stderr string
	status         int
}

// program runs the program with a command line, without the variables that it reads.
func program(t *testing.T, args ...string) outcome {
	t.Helper()
	return programIn(t, nil, args...)
}

// programIn runs the program with these variables of those that it reads.
func programIn(t *testing.T, variables []string, args ...string) outcome {
	t.Helper()
	return finish(t, programCmd(t, variables, args...))
}

// finish runs a program to its end.
func finish(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exited *exec.ExitError
	if err := cmd.Run(); err != nil {
		require.ErrorAs(t, err, &exited)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// programCmd is a command that runs the program.
func programCmd(tb testing.TB, variables []string, args ...string) *exec.Cmd {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), os.Args[0], args...)
	cmd.Env = append(slices.DeleteFunc(cmd.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "WATCHDOG_")
	}), append(variables, programVariable+"=1")...)
	return cmd
}

func TestVersion(t *testing.T) {
	t.Parallel()
	o := program(t, "version")
	assert.Zero(t, o.status)
	assert.Regexp(t, `^watchdog \S+, go1\.\d+\S*, `+runtime.GOOS+"/"+runtime.GOARCH+"\n$", o.stdout)
	assert.Equal(t, o, program(t, "--version"))
	assert.Equal(t, o, program(t, "-V"))
	o = program(t, "--version", "--json")
	var v map[string]string
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &v))
	assert.Equal(t, runtime.Version(), v["go"])
}

func TestHelpCommand(t *testing.T) {
	t.Parallel()
	help := program(t, "--help")
	assert.Zero(t, help.status)
	assert.Equal(t, help, program(t, "help"))
	assert.Equal(t, help, program(t, "-h"))
	assert.Equal(t, outcome{stderr: help.stdout, status: 125}, program(t), "no command is a mistake")
	assert.Equal(t, program(t, "sessions", "--help"), program(t, "help", "sessions"))
	assert.Equal(t, outcome{
		stderr: "watchdog: there is no command \"nosuch\"; watchdog --help lists those that there are\n", status: 125,
	}, program(t, "help", "nosuch"))
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"nosuch": "watchdog: unexpected argument nosuch\nwatchdog --help says how it is used\n",
		"version --jsno": "watchdog: unknown flag --jsno, did you mean \"--json\"?\n" +
			"watchdog version --help says how it is used\n",
	} {
		o := program(t, strings.Fields(line)...)
		assert.Equal(t, 125, o.status, line)
		assert.Equal(t, want, o.stderr, line)
		assert.Empty(t, o.stdout, line)
	}
}
