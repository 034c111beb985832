package main_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// stopped has a run with a layer, whose host stopped it, in the store.
func stopped(tb testing.TB, store testStore, runID string) {
	tb.Helper()
	_, _, err := store.Attach(tb.Context(), session.Session{
		RunID: runID, StartedAt: time.Now().Add(-time.Hour), Host: "host-a",
	})
	require.NoError(tb, err)
	row, err := store.Session(tb.Context(), runID)
	require.NoError(tb, err)
	run, err := watchdog.New(tb.Context(), watchdog.Run{ID: runID, StartedAt: row.StartedAt}, watchdog.Config{
		Store: store, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(tb, err)
	layer, err := run.Layer("build", watchdog.Budget{})
	require.NoError(tb, err)
	_, err = layer.Cancel(watchdog.Cancellation{Reason: watchdog.CommandNoOutput, Elapsed: time.Minute, Budget: time.Minute})
	require.NoError(tb, err)
	require.NoError(tb, layer.Close())
	run.Note("tool: grep \x1b[31m")
	_, err = run.Cancel(watchdog.Cancellation{Reason: watchdog.GradeRegressing})
	require.NoError(tb, err)
	require.NoError(tb, run.Close())
	_, err = store.End(tb.Context(), []session.Ending{{
		RunID: runID, Attempt: 1, Status: session.Cancelled, Reason: watchdog.GradeRegressing,
	}})
	require.NoError(tb, err)
}

func TestWhy(t *testing.T) {
	t.Parallel()
	eachURL(t, racing.Long, func(t *testing.T, url string) {
		store := openStore(t, url)
		stopped(t, store, "s-1")
		_, _, err := store.Attach(t.Context(), session.Session{RunID: "live", StartedAt: time.Now(), Host: "host-b"})
		require.NoError(t, err)
		require.NoError(t, store.Close())
		t.Run("a run", func(t *testing.T) {
			o := program(t, "why", "--store", url, "s-1")
			require.Zero(t, o.status, o.stderr)
			checkText(t, o.stdout)
			assert.Regexp(t, `^run      s-1 on host-a
state    stopped \S+ \S+ UTC, \S+ ago
why      a loop's results got worse
         grade_regressing, by its host
doing    last noted "tool: grep \[31m"
started  \S+ \S+ UTC
used     1h\S*
layers   s-1/build stopped \(watchdog_no_output\) after \S+
next     remove the cause or raise the limit, then resume it
         watchdog resume --store \S+ s-1
$`, o.stdout)
			assert.Empty(t, o.stderr)
		})
		t.Run("as JSON", func(t *testing.T) {
			o := program(t, "why", "--store", url, "--json", "s-1")
			require.Zero(t, o.status, o.stderr)
			var s story.Story
			require.NoError(t, json.Unmarshal([]byte(o.stdout), &s))
			assert.Equal(t, watchdog.GradeRegressing, s.End.Code)
			assert.Equal(t, 1, strings.Count(o.stdout, "\n"))
		})
		t.Run("one that lives", func(t *testing.T) {
			o := program(t, "why", "--store", url, "live")
			require.Zero(t, o.status, o.stderr)
			checkText(t, o.stdout)
			assert.Contains(t, o.stdout, "state    running\n")
			assert.Contains(t, o.stdout, "\n         watchdog tail --store "+story.ShellQuote(url)+" live\n")
		})
		t.Run("one that never was", func(t *testing.T) {
			o := program(t, "why", "--store", url, "live-1")
			assert.Equal(t, 125, o.status)
			assert.Equal(t, "watchdog: the store has no run live-1, and no event of one; did you mean live? "+
				"watchdog sessions lists all\n", o.stderr)
			o = program(t, "why", "--store", url, "\x1b[31mnobody")
			assert.Equal(t, 125, o.status)
			assert.Equal(t, `watchdog: the store has no run \x1b[31mnobody, and no event of one; `+
				"watchdog sessions lists those that there are\n", o.stderr)
		})
	})
}

// TestWhyFolder reads what package stall writes.
func TestWhyFolder(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../stall/testdata/event.json")
	require.NoError(t, err)
	root := t.TempDir()
	for _, step := range []string{"build", "test"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, step, "_stall"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, step, "_stall", "event.json"), text, 0o644))
	}
	for _, dir := range []string{"build", "build/_stall", "build/_stall/event.json"} {
		o := program(t, "why", filepath.Join(root, dir))
		require.Zero(t, o.status, o.stderr)
		checkText(t, o.stdout)
		assert.Contains(t, o.stdout, "why      the probe says that the state is terminal\n")
		assert.Contains(t, o.stdout, "command  SIGINT to 1; nothing is alive\n")
		assert.Empty(t, o.stderr)
	}
	t.Run("the root has a line for each step", func(t *testing.T) {
		o := program(t, "why", root)
		require.Zero(t, o.status, o.stderr)
		const line = "1970-01-01 00:00:00 UTC step stopped: the probe says that the state is terminal\n"
		assert.Equal(t, line+line+
			"watchdog why DIR/STEP tells more of one\n", o.stdout)
		o = program(t, "why", "--json", root)
		require.Zero(t, o.status, o.stderr)
		assert.Equal(t, 2, strings.Count(o.stdout, "\n"))
	})
	t.Run("a folder without such a file is a run", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "watchdog.db")
		store, err := sqlite.Open(t.Context(), path)
		require.NoError(t, err)
		require.NoError(t, store.Close())
		url := "sqlite:" + path
		empty := t.TempDir()
		o := program(t, "why", "--store", url, empty)
		assert.Equal(t, 125, o.status)
		assert.Contains(t, o.stderr, "the store has no run")
		o = program(t, "why", empty)
		assert.Equal(t, 125, o.status)
		assert.Contains(t, o.stderr, "no command stalled there; for a run in a database, no store is named; write --store")
		o = program(t, "why", "--store", url, filepath.Join(root, "build"))
		require.Zero(t, o.status, o.stderr)
		assert.Contains(t, o.stderr, "is a folder with artifacts, and this is what they say")
	})
	t.Run("a file that cannot be read", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "event.json")
		require.NoError(t, os.WriteFile(file, []byte("{}"), 0o644))
		o := program(t, "why", file)
		assert.Equal(t, 125, o.status)
		assert.Contains(t, o.stderr, `its schema is ""`)
	})
}
