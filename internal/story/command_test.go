package story_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/story"
)

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
	assert.Equal(t, map[string]story.Left{
		"command": story.LeftNothing, "finished": story.LeftNothing, "unfinished": story.LeftUnknown,
		"ignored": story.LeftRunning, "survivors": story.LeftAlive,
	}, left)
	_, err = story.OfArtifact([]byte(`{"schema":"watchdog.stall.event/v9"}`), told)
	assert.EqualError(t, err, `its schema is "watchdog.stall.event/v9", and this version reads "watchdog.stall.event/v1"`)
	_, err = story.OfArtifact([]byte(`no`), told)
	assert.ErrorContains(t, err, "it is not the JSON of a stalled command")
}
