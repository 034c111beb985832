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

	"github.com/seed62658d38/watchdog/internal/racing"
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
	last := 1000
	if racing.Enabled {
		last = 200
	}
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
	require.NoError(t, os.WriteFile(f.path(artifact.TempPrefix+"ABC"), []byte(`{"schema": "wat`), 0o600))
	require.NoError(t, os.WriteFile(f.path("notes.txt"), nil, 0o600))
	require.NoError(t, os.Mkdir(f.path(artifact.TempPrefix+"folder"), 0o700))
	f.open("build")
	want := append([]string{artifact.TempPrefix + "folder", "notes.txt"}, files...)
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
	for i := range 300 {
		assert.NoError(t, d.WriteEvent(numbered(i)))
	}
	close(stop)
	opener.Wait()
	_, err := decode([]byte(f.read(artifact.EventFile)))
	require.NoError(t, err)
}

func TestConcurrentWrites(t *testing.T) {
	f := newFixture(t)
	d := f.open("build")
	var writers sync.WaitGroup
	for i := range 20 {
		writers.Go(func() {
			assert.NoError(t, d.WriteEvent(numbered(i)))
			assert.NoError(t, d.AppendProbe(artifact.Probe{Same: i, Summary: strings.Repeat("y", 3000)}))
			assert.NoError(t, d.WriteTail([]byte("tail")))
		})
	}
	writers.Wait()
	_, err := decode([]byte(f.read(artifact.EventFile)))
	require.NoError(t, err)
	require.Len(t, probes(t, f), 20)
}

// TestReplaceHardLink checks that another name of event.json keeps the old content.
func TestReplaceHardLink(t *testing.T) {
	f := newFixture(t)
	d := f.open("build")
	require.NoError(t, d.WriteEvent(numbered(1)))
	other := filepath.Join(f.base, "hard link")
	if err := os.Link(f.path(artifact.EventFile), other); err != nil {
		t.Skipf("no hard links here: %v", err)
	}
	expectUnchanged(t, other)
	require.NoError(t, d.WriteEvent(numbered(2)))
}
