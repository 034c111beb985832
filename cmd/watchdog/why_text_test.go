package main_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/why"
	"github.com/seed62658d38/watchdog/internal/story"
)

// TestStoryText tells the stories of package story for people.
func TestStoryText(t *testing.T) {
	files, err := filepath.Glob("../../internal/story/testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			for _, s := range readStories(t, file) {
				text := why.Text(s)
				checkText(t, text)
				got.WriteString(text + "\n")
			}
			golden(t, "why/"+name, got.String())
		})
	}
}

func readStories(t *testing.T, file string) (all []story.Story) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	for d := json.NewDecoder(f); ; {
		var s story.Story
		err := d.Decode(&s)
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		all = append(all, s)
	}
}

// checkText expects a text that any terminal shows as it is: few aligned lines, nothing that cannot be seen.
func checkText(t *testing.T, text string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	assert.LessOrEqual(t, len(lines), 24)
	for _, line := range lines {
		if !strings.HasPrefix(line, "         watchdog ") { // that is to be pasted, whole
			assert.LessOrEqual(t, term.Columns(line), 80, line)
		}
		require.Greater(t, len(line), 9, "%q is aligned", line)
		assert.Equal(t, " ", line[8:9], "%q is aligned", line)
		assert.NotEqual(t, " ", line[9:10], "%q is aligned", line)
		for _, r := range line {
			assert.True(t, unicode.IsPrint(r), "%q shows %q", line, r)
		}
	}
}

// TestLongStory protects a terminal's first screen: what is too much is left out, with how much that is.
func TestLongStory(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := story.Story{RunID: "s-1", State: story.Running, StartedAt: began, ToldAt: began.Add(time.Hour)}
	for i := range 3000 {
		at := began.Add(time.Duration(i) * time.Second)
		s.Asked = append(s.Asked, story.Request{At: at, Kind: "retry", Limit: "idle", Attempt: i})
		s.Others = append(s.Others, story.Other{At: at, Type: strings.Repeat("宽", 500), Problem: "of another writer"})
		s.Layers = append(s.Layers, story.Layer{RunID: "s-1/" + strings.Repeat("x", 250), State: story.Stopped})
		s.Allowed = append(s.Allowed, story.Limit{Limit: "tool_calls", Tool: strings.Repeat("rm ", i%7), Count: 3})
	}
	s.Next = story.Next{Advice: "watch it", Command: []string{"watchdog", "tail", "s-1"}}
	text := why.Text(s)
	checkText(t, text)
	assert.Contains(t, text, "attempt 2999", "the latest is told")
	assert.Regexp(t, `(?m)^left out \d+ lines; --json has all`, text)
	assert.Contains(t, text, "\n         watchdog tail s-1\n")
}
