package story_test

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
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

// TestShellQuote has shells read what is quoted. Fish cannot read escapes.
func TestShellQuote(t *testing.T) {
	words := slices.AppendSeq([]string{"=ls", "%self", `a\\b`, `a\`, `\'`, "!!", "{a,b}", "^a", "", "#a"}, maps.Keys(commands))
	for _, name := range []string{"bash", "zsh", "fish"} {
		shell, err := exec.LookPath(name)
		if err != nil {
			t.Log("there is no " + name)
			continue
		}
		line, want := `printf '%s\n'`, ""
		for _, word := range words {
			if quoted := story.ShellQuote(word); name != "fish" || !strings.HasPrefix(quoted, "$") {
				line, want = line+" "+quoted, want+word+"\n"
			}
		}
		read := exec.CommandContext(t.Context(), shell, "-c", line)
		read.Env = []string{"LC_ALL=C.UTF-8", "HOME=" + t.TempDir()}
		out, err := read.Output()
		require.NoError(t, err, name)
		assert.Equal(t, want, string(out), name)
	}
}
