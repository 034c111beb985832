package story_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
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
		assert.NotContains(t, said, "runtime.watchdog", "%s is not told as one of another writer", file)
		fmt.Fprintf(&got, "%-22s %s\n", strings.TrimSuffix(filepath.Base(file), ".json"), said)
	}
	for _, e := range stories["foreign"]().Events {
		fmt.Fprintf(&got, "%-22s %s\n", "of another writer", story.Sentence(e))
	}
	for _, e := range slices.Concat(stories["swept"]().Events, stories["host_lost"]().Events) {
		fmt.Fprintf(&got, "%-22s %s\n", "of a sweeper", story.Sentence(e))
	}
	file := filepath.Join("testdata", "sentences.txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}
