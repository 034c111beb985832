package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/config"
)

// file writes a file in a folder of the test and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const text = "runtime_controls:\n  idle_timeout_seconds: 60\n  ladders:\n    idle: [retry, cancel]\n" +
		"sweep:\n  interval: 1m\n"
	path := file(t, "watchdog.yaml", text)
	in := func(o outcome) string { return strings.ReplaceAll(o.stdout, path, "watchdog.yaml") }
	t.Run("the schema for editors", func(t *testing.T) {
		require.Equal(t, outcome{stdout: string(config.Schema())}, program(t, "check", "--schema", "nothing.yaml"))
	})
	t.Run("what is in force, from where, and the worst time", func(t *testing.T) {
		o := program(t, "check", path)
		require.Zero(t, o.status, o.stderr)
		compare(t, "check", regexp.MustCompile(`(?m)^.* default\n`).ReplaceAllString(in(o), ""))
		for _, s := range new(config.Config).Limits() {
			require.Contains(t, o.stdout, s.Key+" ")
		}
		require.Equal(t, in(o), in(program(t, "check", "--config", path)), "by the flag that all commands have")
		require.Equal(t, in(o), in(programIn(t, []string{"WATCHDOG_CONFIG=" + path}, "check")), "by the variable")
	})
	t.Run("only what is set", func(t *testing.T) {
		compare(t, "check-set", in(program(t, "check", "--set", path)))
	})
	t.Run("a variable overrides the file", func(t *testing.T) {
		o := programIn(t, []string{"WATCHDOG_IDLE_TIMEOUT_SECONDS=90", "WATCHDOG_STORE=sqlite:none"}, "check", "--set", path)
		require.Contains(t, o.stdout, "1m30s")
		require.Contains(t, o.stdout, "environment WATCHDOG_IDLE_TIMEOUT_SECONDS")
		require.Empty(t, o.stderr, "the program's own variables are not taken for misspelt ones")
	})
	t.Run("as JSON", func(t *testing.T) {
		var got struct {
			File     string
			Settings []map[string]string
			Worst    string `json:"worst_time"`
		}
		o := program(t, "check", "--json", "--set", path)
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &got))
		require.Equal(t, path, got.File)
		require.Len(t, got.Settings, 3)
		require.Equal(t, "runtime_controls.idle_timeout_seconds", got.Settings[0]["key"])
		require.Equal(t, "1m0s", got.Settings[0]["value"])
		require.Contains(t, got.Worst, "from the last sign of life to the cancel")
	})
	t.Run("each error is a line with its place", func(t *testing.T) {
		bad := file(t, "bad.yaml", "runtime_controls:\n  idle_timeout_secnds: 5\n  warn_at: [2]\n")
		o := program(t, "check", bad)
		require.Equal(t, 125, o.status)
		require.Empty(t, o.stdout)
		lines := strings.Split(strings.TrimSpace(o.stderr), "\n")
		require.Len(t, lines, 2)
		require.True(t, strings.HasPrefix(lines[0], "watchdog: "+bad+":2: "), lines[0])
		require.Contains(t, lines[0], "did you mean idle_timeout_seconds?")
		require.True(t, strings.HasPrefix(lines[1], "watchdog: "+bad+":3: "), lines[1])
	})
	t.Run("a file in which nothing is a setting", func(t *testing.T) {
		other := file(t, "other.yaml", "server:\n  port: 5\n")
		require.Contains(t, program(t, "check", other).stdout, "nothing in "+other+" is a setting")
		require.Contains(t, program(t, "check", "--json", other).stdout, `"nothing_in_file": true`)
		require.NotContains(t, program(t, "check", path).stdout, "nothing in")
		hidden := file(t, "hidden.yaml", "runtime_controls:\n  idle_timeout_seconds: 5\n")
		overridden := programIn(t, []string{"WATCHDOG_IDLE_TIMEOUT_SECONDS=90"}, "check", hidden)
		require.NotContains(t, overridden.stdout, "nothing in")
	})
	t.Run("a file that is not there, and two files", func(t *testing.T) {
		o := program(t, "check", "nosuch.yaml")
		require.Equal(t, 125, o.status)
		require.Contains(t, o.stderr, "nosuch.yaml")
		o = program(t, "check", "--config", path, "other.yaml")
		require.Equal(t, 125, o.status)
		require.Contains(t, o.stderr, "name one")
	})
}
