package story_test

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/story"
)

// commands are the words of run IDs in a command line.
var commands = map[string]string{
	"s-1": "s-1", "a b": "'a b'", "it's": `'it'\''s'`, "$(rm -rf /)": "'$(rm -rf /)'", "-rf": "-- -rf", "é": "'é'",
	"x\u202ey": `$'x\u202ey'`, "x\u00a0'y\\": `$'x\u00a0\'y\\'`, "\U000e0001x": `$'\U000e0001x'`, "tenant/7:a": "tenant/7:a",
	"~": "'~'", "a*": "'a*'", "a\nb": `$'a\x0ab'`, "\x1b[31m'": `$'\x1b[31m\''`, "a\xffb": `$'a\xffb'`,
}

func TestNextLine(t *testing.T) {
	for runID, want := range commands {
		s := script{run: runID}
		s.add(time.Minute, watchdog.EventCancel, cancel(time.Minute, "idle_exceeded", time.Minute, time.Minute))
		assert.Equal(t, "watchdog resume "+want, story.Of(s.record(nil), told).Next.Line())
	}
	assert.Empty(t, story.Next{}.Line())
}

// TestShellQuote has a shell read what is quoted.
func TestShellQuote(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	for word := range commands {
		read := exec.CommandContext(t.Context(), bash, "-c", "printf %s "+story.ShellQuote("x"+word))
		read.Env = []string{"LC_ALL=C.UTF-8"}
		out, err := read.Output()
		require.NoError(t, err)
		assert.Equal(t, "x"+word, string(out))
	}
}
