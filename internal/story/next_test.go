package story_test

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

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
		require.Equal(t, "watchdog resume "+want, story.Of(s.record(nil), told).Next.Line())
	}
	require.Empty(t, story.Next{}.Line())
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
		require.Equal(t, want, string(out), name)
	}
}

// artifacts are what a guard can leave of a command, made from what package stall writes.
var artifacts = map[string][]string{ // replacements
	"command":    nil,
	"finished":   {`"complete": true`, `"complete": true, "finished": true`},
	"unfinished": {`"complete": true`, `"complete": false`, `"terminated": true`, `"terminated": false`},
	"ignored": {
		`"kind": "interrupt"`, `"kind": "ignore"`, `"sent": [`, `"sent": [], "was": [`, `"terminated": true`,
		`"terminated": false`,
	},
	"survivors": {
		`"terminated": true`, `"terminated": false`, `"ended_by": "SIGINT"`, `"ended_by": ""`, `"exit_code": 7`,
		`"exit_code": null`, `"processes": 1`, `"processes": 3, "missed": 2`, `"duration_ms": 0`,
		`"failed": "timeout", "duration_ms": 0`, `"kind": "terminal"`, `"kind": "no_output"`,
	},
}

func TestOfArtifact(t *testing.T) {
	text, err := os.ReadFile("../../stall/testdata/event.json")
	require.NoError(t, err)
	left := map[string]story.Left{}
	for name, replacements := range artifacts {
		for i := 0; i < len(replacements); i += 2 {
			require.Contains(t, string(text), replacements[i])
		}
		s, err := story.OfArtifact([]byte(strings.NewReplacer(replacements...).Replace(string(text))), told)
		require.NoError(t, err)
		golden(t, "artifact_"+name, s)
		left[name] = s.Command.Left
	}
	require.Equal(t, map[string]story.Left{
		"command": story.LeftNothing, "finished": story.LeftNothing, "unfinished": story.LeftUnknown,
		"ignored": story.LeftRunning, "survivors": story.LeftAlive,
	}, left)
	_, err = story.OfArtifact([]byte(`{"schema":"watchdog.stall.event/v9"}`), told)
	require.EqualError(t, err, `its schema is "watchdog.stall.event/v9", and this version reads "watchdog.stall.event/v1"`)
	_, err = story.OfArtifact([]byte(`no`), told)
	require.ErrorContains(t, err, "it is not the JSON of a stalled command")
}
