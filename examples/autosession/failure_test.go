package main_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFailed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	healthy := b.env
	b.env = append(b.env, goFails+"=vet")
	failed := b.run().must(t, 1)

	t.Run("a phase that fails ends the session and shows what its command printed", func(t *testing.T) {
		assert.Contains(t, failed.stdout, "FAILED in phase vet: go vet ./...: exit status 1")
		assert.Contains(t, failed.stdout, "undefined: everything")
		assert.Equal(t, "failed", b.session().Status)
		assert.Equal(t, "vet", b.session().Phase)
	})
	t.Run("what it printed is in its log and in the log alone", func(t *testing.T) {
		logs := 0
		for path, text := range filesIn(t, b.state) {
			if filepath.Ext(path) == ".log" {
				logs++
				continue
			}
			assert.NotContains(t, text, canary, path)
		}
		assert.Equal(t, 3, logs)
	})
	t.Run("attaching tries the phase again", func(t *testing.T) {
		b.env = healthy
		finish(t, b.shell(printed(t, failed.stdout, "to go on:"))).must(t, 0)
		assert.Equal(t, []string{"list", "build", "vet", "vet", "test"}, b.commands())
	})
	t.Run("a project that does not build fails in the real build", func(t *testing.T) {
		genuine, project := newBed(t).withRealGo(), t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(project, "go.mod"), []byte("module broken\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(project, "a.go"), []byte("package broken\n\nvar A = B\n"), 0o600))
		assert.Contains(t, genuine.run("-project", project).must(t, 1).stdout, "undefined: B")
		assert.Equal(t, "build", genuine.session().Phase)
	})
	t.Run("a go command that is not there is an error that says so", func(t *testing.T) {
		lost := newBed(t)
		lost.env = append(lost.env, "PATH=")
		assert.Contains(t, lost.run().must(t, 1).stdout, `FAILED in phase plan: go list ./...: exec: "go"`)
	})
}

// filesIn are the contents of all files in a directory, by their paths.
func filesIn(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	}))
	return files
}

func TestRefused(t *testing.T) {
	t.Parallel()
	t.Run("a session that is not there", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		for _, flags := range [][]string{{"-resume"}, {"-events"}, {"-session", "none"}, {"-session", "none", "-events"}} {
			assert.Contains(t, b.run(flags...).must(t, 1).stderr, "no such session")
		}
		assert.NoDirExists(t, b.state, "nothing is made for it")
		b.run().must(t, 0)
		assert.Contains(t, b.run("-session", "none").must(t, 1).stderr, b.session().ID, "it names those that there are")
	})
	for problem, text := range map[string]string{
		"a session file that is no JSON":         `{"id": "`,
		"a session file of another session":      `{"id":"other","session_started_at":"2026-01-01T00:00:00Z","status":"running"}`,
		"a session file without a start":         `{"id":"ID","status":"running"}`,
		"a session file with a strange status":   `{"id":"ID","session_started_at":"2026-01-01T00:00:00Z","status":"weird"}`,
		"a session file with a budget below 0":   `{"id":"ID","session_started_at":"2026-01-01T00:00:00Z","status":"running","budget":{"wall_clock_seconds":-1}}`,
		"a session file that was emptied":        ``,
		"a session file whose start is in words": `{"id":"ID","session_started_at":"yesterday","status":"running"}`,
		"an older file whose start is in words":  `{"id":"ID","started_at":"yesterday","status":"running"}`,
	} {
		t.Run(problem, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.run().must(t, 0)
			id := b.session().ID
			b.overwrite(text)
			assert.Contains(t, b.run("-session", id).must(t, 1).stderr, "corrupt session file")
			assert.Empty(t, b.events("-session", id), "its events can be printed all the same")
			b.run().must(t, 0) // a new session does not care
		})
	}
	t.Run("a state directory that cannot be made", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		require.NoError(t, os.WriteFile(b.state, nil, 0o600))
		assert.Contains(t, b.run().must(t, 1).stderr, "create state directory")
	})
	t.Run("a database that is none", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		require.NoError(t, os.Mkdir(b.state, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(b.state, "events.db"), []byte("this is not a database, it is a text"), 0o600))
		assert.Contains(t, b.run().must(t, 1).stderr, "events.db")
		assert.NoFileExists(t, filepath.Join(b.state, "session.json"))
	})
	t.Run("a project that is not there, or another one than the session's", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		assert.Contains(t, b.run("-project", "nowhere").must(t, 1).stderr, "find project")
		assert.NoDirExists(t, b.state)
		b.run().must(t, 0)
		assert.Contains(t, b.run("-resume", "-project", "demo").must(t, 1).stderr, "is about another project, the one that is shipped")
	})
}

// overwrite writes over the file of the last session.
func (b *bed) overwrite(text string) {
	b.t.Helper()
	id := b.session().ID
	text = strings.ReplaceAll(text, `"ID"`, strconv.Quote(id))
	require.NoError(b.t, os.WriteFile(filepath.Join(b.state, "session.json"), []byte(text), 0o600))
}
