package main_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	main "github.com/seed62658d38/watchdog/cmd/watchdog"
)

func TestRunFlags(t *testing.T) {
	t.Parallel()
	t.Run("a command line that is wrong is refused with a reason, and nothing is started", func(t *testing.T) {
		t.Parallel()
		var said strings.Builder
		for _, line := range []string{
			"",
			"--no-output 5m",
			"--no-output 5m --",
			"--no-outputs 5m -- true",
			"--no-output soon -- true",
			"--no-output 5 -- true",
			"--no-output=-1s -- true",
			"--no-output -1s -- true",
			"--no-output 0 -- true",
			"--no-output -- true",
			"--no-output",
			"--activity stderr -- true",
			"--wall-clock=-1s -- true",
			"--grace-int=-1s -- true",
			"--signal NONE -- true",
			"--signal STOP -- true",
			"-s TERM --grace-int 1s -- true",
			"-s KILL --grace-term 1s -- true",
			"--on-stall explode -- true",
			"--activity nothing -- true",
			"--terminal ( -- true",
			"--probe-interval 1s -- true",
			"--stall-threshold 2 -- true",
			"--also-end-timeout 2s -- true",
			"--probe ./probe --stall-threshold 1 -- true",
			"--probe ./probe --probe-interval 0s -- true",
			"--probe ./probe --on-probe-error stall --probe-error-threshold 0 -- true",
			"--fingerprint-prefix /x -- true",
			"--step a/b -- true",
			"--id nightly-{date} -- true",
			"--config no-such-file -- true",
			"--store nosuch:x -- true",
		} {
			o := program(t, append([]string{"run"}, strings.Fields(line)...)...)
			assert.Equal(t, 125, o.status, line)
			assert.Empty(t, o.stdout, line)
			said.WriteString("watchdog run " + line + "\n\t" + strings.ReplaceAll(o.stderr, "\n", "\n\t") + "\n")
		}
		here, err := os.Getwd()
		require.NoError(t, err)
		golden(t, "run_refused", strings.NewReplacer("\t\n", "", here, "HERE").Replace(said.String()))
	})
	t.Run("a valid command line is accepted", func(t *testing.T) {
		t.Parallel()
		for _, line := range []string{
			"true", "-- true --no-outputs", "true --no-outputs", "--wall-clock 0 true",
			"--grace-int 0s --grace-term 0s true", "--probe true --stall-threshold 2 true",
			"--on-stall ignore --on-terminal fail --terminal fatal,a --terminal b --wall-clock 1h --step build -- true",
			"--signal TERM --also-end true --also-end-timeout 1s --record-timeout 1s --keep-background true",
			"--probe true --probe-timeout 1s --probe-any-exit --on-probe-error stall --probe-error-threshold 9 true",
			"--check-id a --workflow b --iteration 3 --step-log d --fingerprint-prefix ci --id x true",
			"--no-output 1m --activity stdout true",
		} {
			o := program(t, append([]string{"run"}, strings.Fields(line)...)...)
			assert.Equal(t, outcome{}, o, line)
		}
	})
	t.Run("--help prints the help and succeeds", func(t *testing.T) {
		t.Parallel()
		o := program(t, "run", "--help")
		assert.Zero(t, o.status)
		assert.Empty(t, o.stderr)
		golden(t, "run_help", o.stdout)
		assert.LessOrEqual(t, strings.Count(o.stdout, "\n"), 60)
		for line := range strings.Lines(programIn(t, []string{"COLUMNS=300"}, "run", "--help").stdout) {
			assert.LessOrEqual(t, len(line), 101, line)
		}
		shown, all := flagsOf(o.stdout), flagsOf(program(t, "help", "run").stdout)
		assert.LessOrEqual(t, len(shown), 24)
		assert.Len(t, all, 43, "nothing is hidden from watchdog help")
		assert.Subset(t, all, shown)
	})
}

func TestFilledID(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 23, 30, 5, 999, time.FixedZone("", -5*3600))
	for id, want := range map[string]string{
		"": "", "nightly": "nightly", "nightly-{time}": "nightly-20261128T043005Z", "{host}/{time}{host}": "h/20261128T043005Zh",
		"{time": "{time", "a}b{": "a}b{",
	} {
		got, err := main.FilledID(id, "h", now)
		require.NoError(t, err, id)
		assert.Equal(t, want, got)
	}
	for _, id := range []string{"{}", "{date}", "{time}-{Host}", "{{time}}"} {
		_, err := main.FilledID(id, "h", now)
		assert.ErrorContains(t, err, "; write {time} or {host}", id)
	}
	here, err := os.Hostname()
	require.NoError(t, err)
	got, err := main.FilledID("{host}", "", now)
	require.NoError(t, err)
	assert.Equal(t, here, got)
}

// flagsOf are the flags that a help lists.
func flagsOf(help string) (flags []string) {
	for _, found := range regexp.MustCompile(`(?m)^ {2,6}(?:-\w, )?--(?:\[no-\])?([a-z-]+)`).FindAllStringSubmatch(help, -1) {
		flags = append(flags, "--"+found[1])
	}
	return flags
}
