package artifact_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

// numbered returns an event whose length depends on its number. The number is at its start and at its end.
func numbered(i int) artifact.Event {
	e := tripped()
	e.Iteration, e.Complete = i, true
	e.Reasons = []string{strings.Repeat("x", i%7*1500), fmt.Sprint(i)}
	return e
}

// decode reads a whole numbered event and returns its number.
func decode(text []byte) (int, error) {
	var e artifact.Event
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		return 0, fmt.Errorf("%d bytes: %w", len(text), err)
	}
	want := numbered(e.Iteration)
	if !slices.Equal(e.Reasons, want.Reasons) || !bytes.HasSuffix(text, []byte("}\n")) {
		return 0, fmt.Errorf("%d bytes are not event %d", len(text), e.Iteration)
	}
	return e.Iteration, nil
}

// TestConcurrentReader checks that a reader sees an event or the next one, and nothing between.
func TestConcurrentReader(t *testing.T) {
	const last = 200
	f := newFixture(t)
	d := f.open("build")
	require.NoError(t, d.WriteEvent(numbered(0)))

	var reader sync.WaitGroup
	reader.Go(func() {
		for seen := 0; seen < last; {
			text, err := os.ReadFile(f.path(artifact.EventFile))
			if !assert.NoError(t, err) {
				return
			}
			i, err := decode(text)
			if !assert.NoError(t, err) || !assert.GreaterOrEqual(t, i, seen) {
				return
			}
			seen = i
		}
	})
	for i := range last {
		assert.NoError(t, d.WriteEvent(numbered(i+1)))
	}
	reader.Wait()
	require.Equal(t, []string{artifact.EventFile}, f.names())
}

// TestLeftovers checks that Open removes the temporary files of a crashed process.
func TestLeftovers(t *testing.T) {
	f := newFixture(t)
	require.Empty(t, failures(writeAll(f.open("build"))))
	require.NoError(t, os.WriteFile(f.path(tempPrefix+"ABC"), []byte(`{"schema": "wat`), 0o600))
	require.NoError(t, os.WriteFile(f.path("notes.txt"), nil, 0o600))
	require.NoError(t, os.Mkdir(f.path(tempPrefix+"folder"), 0o700))
	f.open("build")
	want := append([]string{tempPrefix + "folder", "notes.txt"}, files...)
	require.ElementsMatch(t, want, f.names(), "only files with the prefix are ours")
}

// TestConcurrentOpen checks that Open does not remove a temporary file that another process is writing. Two sessions
// may run a step of the same name.
func TestConcurrentOpen(t *testing.T) {
	f := newFixture(t)
	d := f.open("build")
	stop := make(chan struct{})
	var opener sync.WaitGroup
	opener.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			other, err := artifact.Open(f.root, "build")
			if assert.NoError(t, err) {
				assert.NoError(t, other.Close())
			}
		}
	})
	for i := range 100 {
		assert.NoError(t, d.WriteEvent(numbered(i)))
	}
	close(stop)
	opener.Wait()
	_, err := decode([]byte(f.read(artifact.EventFile)))
	require.NoError(t, err)
}

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
