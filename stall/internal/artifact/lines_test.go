package artifact_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

// probes returns the lines of probe.jsonl. Each of them must be valid.
func probes(t *testing.T, f *fixture) []artifact.Probe {
	t.Helper()
	text := f.read(artifact.ProbeFile)
	require.True(t, strings.HasSuffix(text, "}\n"), "the last line is whole")
	read := []artifact.Probe{}
	for line := range strings.Lines(text) {
		var p artifact.Probe
		require.NoError(t, json.Unmarshal([]byte(line), &p), line)
		read = append(read, p)
	}
	return read
}

// TestTornLine checks that an incomplete last line is removed before the next line is appended.
func TestTornLine(t *testing.T) {
	whole := `{"same": 1}` + "\n"
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"nothing torn":                    {whole, 2},
		"an empty file":                   {"", 1},
		"half a line":                     {whole + `{"same": 2, "cla`, 2},
		"a line without its newline":      {whole + `{"same": 2}`, 2},
		"only half a line":                {`{"sa`, 1},
		"a half line longer than a block": {whole + strings.Repeat("z", 10_000), 2},
		"a newline at a block's edge":     {whole + strings.Repeat("z", 4096), 2},
		"a long line that is whole":       {`{"same": 1, "summary": "` + strings.Repeat("z", 10_000) + `"}` + "\n", 2},
		"zeros, as some file systems end": {whole + strings.Repeat("\x00", 512), 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			require.NoError(t, os.MkdirAll(f.path(""), 0o700))
			require.NoError(t, os.WriteFile(f.path(artifact.ProbeFile), []byte(c.text), 0o600))
			require.NoError(t, f.open("build").AppendProbe(artifact.Probe{Same: 7}))
			read := probes(t, f)
			require.Len(t, read, c.want)
			require.Equal(t, 7, read[len(read)-1].Same)
			require.True(t, c.want == 1 || read[0].Same == 1, "whole lines stay")
		})
	}
}

// TestAppend checks that lines are appended to those of an earlier attempt.
func TestAppend(t *testing.T) {
	f := newFixture(t)
	for i := range 3 {
		d := f.open("build")
		require.NoError(t, d.AppendProbe(artifact.Probe{Same: i}))
		require.NoError(t, d.AppendProbe(artifact.Probe{Same: i}))
	}
	require.Len(t, probes(t, f), 6)
}

// TestHardLink checks that nothing is appended to a file that has another name.
func TestHardLink(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, os.MkdirAll(f.path(""), 0o700))
	if err := os.Link(filepath.Join(f.outside, artifact.ProbeFile), f.path(artifact.ProbeFile)); err != nil {
		t.Skipf("no hard links here: %v", err)
	}
	expectUnchanged(t, f.outside)
	err := f.open("build").AppendProbe(artifact.Probe{})
	require.ErrorIs(t, err, artifact.ErrInTheWay)
}
