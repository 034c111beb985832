package main_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watchdog "github.com/seed62658d38/watchdog/cmd/watchdog"
)

func TestParseRun(t *testing.T) {
	t.Parallel()
	t.Run("the model of run alone takes a command line as that of all commands does", func(t *testing.T) {
		t.Parallel()
		for _, line := range []string{
			"run", "run true", "run -- true -h", "run true --help", "run --json --store sqlite:x --config y true --store z",
			"run --no-output 5m --wall-clock=1h --terminal a,b --terminal c --signal TERM -- make run",
			"run --probe p --probe-interval 1s --on-probe-error stall --stall-threshold 4 --keep-background x",
			"run --id why --iteration 3 -- run run",
		} {
			alone, of, err := watchdog.ParseRun(strings.Fields(line))
			require.NoError(t, err, line)
			assert.Equal(t, of, alone, line)
		}
	})
	t.Run("the model of run alone takes no other command line", func(t *testing.T) {
		t.Parallel()
		for _, line := range []string{"run --help", "run -h", "run --no-outputs 1s true", "run --listen x true", "version"} {
			_, _, err := watchdog.ParseRun(strings.Fields(line))
			assert.Error(t, err, line)
		}
	})
	t.Run("a variable of another command is no mistake", func(t *testing.T) {
		t.Parallel()
		o := programIn(t, []string{"WATCHDOG_LISTEN=127.0.0.1:0"}, "run", "--", "echo", "done")
		assert.Equal(t, "done\n", o.stdout)
		assert.Empty(t, o.stderr)
		assert.Zero(t, o.status)
	})
}
