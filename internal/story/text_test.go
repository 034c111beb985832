package story_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/story"
)

// TestSentence says each event that the contract of the events has, and those of the stories.
func TestSentence(t *testing.T) {
	var got strings.Builder
	files, err := filepath.Glob("../../testdata/events/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var e watchdog.Event
		require.NoError(t, json.Unmarshal(text, &e))
		said := story.Sentence(e)
		require.NotContains(t, said, "runtime.watchdog", "%s is not told as one of another writer", file)
		fmt.Fprintf(&got, "%-22s %s\n", strings.TrimSuffix(filepath.Base(file), ".json"), said)
	}
	for _, e := range recordOf("foreign").Events {
		fmt.Fprintf(&got, "%-22s %s\n", "of another writer", story.Sentence(e))
	}
	for _, e := range slices.Concat(recordOf("swept").Events, recordOf("host_lost").Events) {
		fmt.Fprintf(&got, "%-22s %s\n", "of a sweeper", story.Sentence(e))
	}
	goldenFile(t, "sentences.txt", got.String())
}

// TestStretches places the parts of each story in time, from the start of the run.
func TestStretches(t *testing.T) {
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(stories)) {
		s := story.Of(recordOf(name), told)
		for _, x := range s.Stretches() {
			require.False(t, x.Until.Before(x.Since), "%s: %v", name, x)
			line := fmt.Sprintf("%-14s %-7s %8v %8v  %-12s %s", name, x.Kind, x.Since.Sub(start).Round(time.Second),
				x.Until.Sub(start).Round(time.Second), x.State, strings.ToValidUTF8(x.Name[:min(len(x.Name), 20)], ""))
			fmt.Fprintln(&got, strings.TrimRight(line, " "))
		}
	}
	goldenFile(t, "stretches.txt", got.String())
}

// TestNothingVoid protects a warning, whose event nothing names: an ID that is empty takes nothing back.
func TestNothingVoid(t *testing.T) {
	s := script{run: "s-1"}
	s.add(0, watchdog.EventWarning, record.Warning{Reason: "wall_clock", SessionStartedAt: at(0), Fraction: 0.8})
	s.add(time.Minute, watchdog.EventProgress, record.Progress{SessionStartedAt: at(0), Resets: []string{""}})
	asked := story.Of(s.record(nil), told).Asked
	require.Len(t, asked, 1)
	require.False(t, asked[0].Void)
}

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
