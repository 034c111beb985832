package story_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
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

// TestStretches places the parts of each story in time, from the start of the run.
func TestStretches(t *testing.T) {
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(stories)) {
		s := story.Of(stories[name](), told)
		for _, x := range s.Stretches() {
			require.False(t, x.Until.Before(x.Since), "%s: %v", name, x)
			line := fmt.Sprintf("%-14s %-7s %8v %8v  %-12s %s", name, x.Kind, x.Since.Sub(start).Round(time.Second),
				x.Until.Sub(start).Round(time.Second), x.State, strings.ToValidUTF8(x.Name[:min(len(x.Name), 20)], ""))
			fmt.Fprintln(&got, strings.TrimRight(line, " "))
		}
	}
	file := filepath.Join("testdata", "stretches.txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
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
