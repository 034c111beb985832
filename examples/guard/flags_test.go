package main_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	guard "github.com/seed62658d38/watchdog/examples/guard"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name + ".golden"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

func TestFlags(t *testing.T) {
	t.Run("an invalid command line is refused with a reason", func(t *testing.T) {
		var said strings.Builder
		for _, line := range []string{
			"",
			"-no-output 5m",
			"-no-outputs 5m -- true",
			"-no-output soon -- true",
			"-no-output -1s -- true",
			"-budget -1s -- true",
			"-grace-int -1s -- true",
			"-grace-term -1s -- true",
			"-on-stall explode -- true",
			"-terminal ( -- true",
			"-probe-interval 1s -- true",
			"-stall-threshold 2 -- true",
			"-probe ./probe -stall-threshold 1 -- true",
			"-probe ./probe -probe-interval 0s -- true",
		} {
			err := guard.Refused(strings.Fields(line))
			require.Error(t, err, line)
			said.WriteString("guard " + line + "\n\t" + err.Error() + "\n")
		}
		golden(t, "refused", said.String())
	})
	t.Run("a valid command line is accepted", func(t *testing.T) {
		for _, line := range []string{
			"true", "-- true -no-outputs", "-no-output 0s true", "-grace-int 0s -grace-term 0s true",
			"-probe ./probe -stall-threshold 2 true",
			"-on-stall ignore -terminal fatal -budget 1h -artifacts state -step build -keep-background -- make",
		} {
			require.NoError(t, guard.Refused(strings.Fields(line)), line)
		}
	})
	t.Run("-h prints the help and succeeds", func(t *testing.T) {
		require.ErrorIs(t, guard.Refused([]string{"-h"}), flag.ErrHelp)
		golden(t, "usage", guard.Usage())
	})
}
