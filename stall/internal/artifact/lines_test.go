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

// probes are the lines of probe.jsonl, each of which has to be one.
func probes(t *testing.T, b *bed) []artifact.Probe {
	t.Helper()
	text := b.read(artifact.ProbeFile)
	require.True(t, strings.HasSuffix(text, "}\n"), "the last line is whole")
	read := []artifact.Probe{}
	for line := range strings.Lines(text) {
		var p artifact.Probe
		require.NoError(t, json.Unmarshal([]byte(line), &p), line)
		read = append(read, p)
	}
	return read
}

func TestATornLineIsCutOffFirst(t *testing.T) {
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
			b := newBed(t)
			require.NoError(t, os.MkdirAll(b.path(""), 0o700))
			require.NoError(t, os.WriteFile(b.path(artifact.ProbeFile), []byte(c.text), 0o600))
			require.NoError(t, b.open("build").AppendProbe(artifact.Probe{Same: 7}))
			read := probes(t, b)
			require.Len(t, read, c.want)
			require.Equal(t, 7, read[len(read)-1].Same)
			require.True(t, c.want == 1 || read[0].Same == 1, "what was whole stays")
		})
	}
}

func TestLinesAreAddedToThoseOfAnEarlierAttempt(t *testing.T) {
	b := newBed(t)
	for i := range 3 {
		d := b.open("build")
		require.NoError(t, d.AppendProbe(artifact.Probe{Same: i}))
		require.NoError(t, d.AppendProbe(artifact.Probe{Same: i}))
	}
	require.Len(t, probes(t, b), 6)
}

func TestAFileThatHasOtherNamesIsNotAppendedTo(t *testing.T) {
	b := newBed(t)
	require.NoError(t, os.MkdirAll(b.path(""), 0o700))
	if err := os.Link(filepath.Join(b.outside, artifact.ProbeFile), b.path(artifact.ProbeFile)); err != nil {
		t.Skipf("no hard links here: %v", err)
	}
	unchanged(t, b.outside)
	err := b.open("build").AppendProbe(artifact.Probe{})
	require.ErrorIs(t, err, artifact.ErrInTheWay)
}

func TestAProbeThatMayHoldItsOwnTextIsRefused(t *testing.T) {
	const canary = "hunter2"
	for name, p := range map[string]artifact.Probe{
		"a digest as the probe gave it":  {Digest: canary},
		"a digest in capitals":           {Digest: "00112233445566778899AABB"},
		"a short digest":                 {Digest: "00112233"},
		"a long digest":                  {Digest: strings.Repeat("0", 129)},
		"a class that is none":           {Class: canary},
		"a blindness that is no reason ": {Blind: canary},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			err := b.open("build").AppendProbe(p)
			require.ErrorIs(t, err, artifact.ErrInvalidProbe)
			require.NotContains(t, err.Error(), canary)
			require.NoFileExists(t, b.path(artifact.ProbeFile))
		})
	}
}
