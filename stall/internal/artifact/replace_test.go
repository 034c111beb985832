package artifact_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/stall/internal/artifact"
)

// numbered is an event whose length depends on its number, which it has at its beginning and at its end.
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
	if len(e.Reasons) != 2 || e.Reasons[0] != want.Reasons[0] || e.Reasons[1] != want.Reasons[1] || !bytes.HasSuffix(text, []byte("}\n")) {
		return 0, fmt.Errorf("%d bytes are not event %d", len(text), e.Iteration)
	}
	return e.Iteration, nil
}

func TestAReaderSeesOneEventOrTheNext(t *testing.T) {
	last := 1000
	if racing.Enabled {
		last = 200
	}
	b := newBed(t)
	d := b.open("build")
	require.NoError(t, d.WriteEvent(numbered(0)))

	var reader sync.WaitGroup
	reader.Go(func() {
		for seen := 0; seen < last; {
			text, err := os.ReadFile(b.path(artifact.EventFile))
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
	require.Equal(t, []string{artifact.EventFile}, b.names())
}

func TestOpenRemovesWhatACrashLeft(t *testing.T) {
	b := newBed(t)
	require.Empty(t, failures(writeAll(b.open("build"))))
	require.NoError(t, os.WriteFile(b.path(artifact.TempPrefix+"ABC"), []byte(`{"schema": "wat`), 0o600))
	require.NoError(t, os.WriteFile(b.path("notes.txt"), nil, 0o600))
	require.NoError(t, os.Mkdir(b.path(artifact.TempPrefix+"folder"), 0o700))
	b.open("build")
	require.ElementsMatch(t, append([]string{artifact.TempPrefix + "folder", "notes.txt"}, files...), b.names(), "only files of that name are ours")
}

// Two sessions may run a step of the same name: what one has under way the other takes for left over.
func TestOpeningAgainDoesNotBreakAWriteUnderWay(t *testing.T) {
	b := newBed(t)
	d := b.open("build")
	stop := make(chan struct{})
	var opener sync.WaitGroup
	opener.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			other, err := artifact.Open(b.root, "build")
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
	_, err := decode([]byte(b.read(artifact.EventFile)))
	require.NoError(t, err)
}

func TestConcurrentWritesAreAllWhole(t *testing.T) {
	b := newBed(t)
	d := b.open("build")
	var writers sync.WaitGroup
	for i := range 20 {
		writers.Go(func() {
			assert.NoError(t, d.WriteEvent(numbered(i)))
			assert.NoError(t, d.AppendProbe(artifact.Probe{Same: i, Summary: strings.Repeat("y", 3000)}))
			assert.NoError(t, d.WriteTail([]byte("tail")))
		})
	}
	writers.Wait()
	_, err := decode([]byte(b.read(artifact.EventFile)))
	require.NoError(t, err)
	require.Len(t, probes(t, b), 20)
}

func TestAnotherNameOfAnEventKeepsTheOldOne(t *testing.T) {
	b := newBed(t)
	d := b.open("build")
	require.NoError(t, d.WriteEvent(numbered(1)))
	other := filepath.Join(b.base, "hard link")
	if err := os.Link(b.path(artifact.EventFile), other); err != nil {
		t.Skipf("no hard links here: %v", err)
	}
	unchanged(t, other)
	require.NoError(t, d.WriteEvent(numbered(2)))
}
