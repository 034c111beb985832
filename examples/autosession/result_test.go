package main_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestResult(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, c := range []struct {
		name  string
		code  int
		fails string
		flags []string
	}{
		{"complete", 0, "", nil},
		{"complete, without a limit", 0, "", []string{"-budget", "0"}},
		{"blocked", 3, "", []string{"-budget", "10ms", "-hang", "plan"}},
		{"failed", 1, "build", []string{"-budget", "1h30m"}},
		{"no session", 1, "", []string{"-session", "none"}},
	} {
		f := newFixture(t)
		f.env = append(f.env, goFails+"="+c.fails)
		o := f.run(append(c.flags, "-json")...).must(t, c.code)
		assert.Equal(t, 1, strings.Count(o.stdout, "\n"), "%s: one line and nothing else on standard output", c.name)
		assert.NotEmpty(t, o.stderr, "%s: progress is on standard error", c.name)
		got.WriteString("# " + c.name + "\n" + normalize(o.stdout))
	}
	golden(t, "result.golden", got.String())
}

func TestBlockedResult(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("-budget", "10ms", "-hang", "plan").must(t, 3)
	before := f.run("-resume", "-budget", "20ms", "-hang", "plan", "-json").must(t, 3).result(t)

	t.Run("it stays the same after an attach with another budget", func(t *testing.T) {
		assert.Equal(t, before, f.run("-session", f.session().ID, "-budget", "2h", "-json").must(t, 3).result(t))
	})
	t.Run("its session and its start are those of the session file", func(t *testing.T) {
		assert.Equal(t, f.session().ID, before["auto_session_id"])
		assert.Equal(t, f.session().StartedAt.Format("2006-01-02T15:04:05.000000Z"), before["session_started_at"])
	})
	t.Run("its events have the same start and the same budget", func(t *testing.T) {
		events := f.events()
		last := events[len(events)-1].Payload
		assert.Equal(t, before["session_started_at"], last["session_started_at"])
		assert.Equal(t, before["budget_seconds"], last["configured_budget_seconds"])
	})
}

var (
	anyID    = regexp.MustCompile(`\d{8}-\d{6}-[0-9a-f]{8}`)
	anyStart = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z`)
	anyTime  = regexp.MustCompile(`"elapsed_seconds":( ?)\d+`)
)

// normalize replaces what differs from run to run.
func normalize(text string) string {
	text = anyStart.ReplaceAllString(anyID.ReplaceAllString(text, "ID"), "START")
	return anyTime.ReplaceAllString(text, `"elapsed_seconds":${1}0`)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

func TestSessionFile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("-budget", "10ms", "-hang", "plan").must(t, 3)
	text, err := os.ReadFile(filepath.Join(f.state, "session.json"))
	require.NoError(t, err)
	require.True(t, json.Valid(text))
	golden(t, "session.golden", normalize(string(text)))
}
