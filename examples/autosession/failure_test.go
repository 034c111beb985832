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
	f := newFixture(t)
	healthy := f.env
	f.env = append(f.env, goFails+"=vet")
	failed := f.run().must(t, 1)

	t.Run("a failing phase ends the session and shows its command's output", func(t *testing.T) {
		assert.Contains(t, failed.stdout, "FAILED in phase vet: go vet ./...: exit status 1")
		assert.Contains(t, failed.stdout, "undefined: everything")
		assert.Equal(t, "failed", f.session().Status)
		assert.Equal(t, "vet", f.session().Phase)
	})
	t.Run("the output is in the log and nowhere else", func(t *testing.T) {
		logs := 0
		for path, text := range filesIn(t, f.state) {
			if filepath.Ext(path) == ".log" {
				logs++
				continue
			}
			assert.NotContains(t, text, canary, path)
		}
		assert.Equal(t, 3, logs)
	})
	t.Run("attaching tries the phase again", func(t *testing.T) {
		f.env = healthy
		finish(t, f.shell(printed(t, failed.stdout, "to go on:"))).must(t, 0)
		assert.Equal(t, []string{"list", "build", "vet", "vet", "test"}, f.commands())
	})
	t.Run("a project that does not build fails in the real build", func(t *testing.T) {
		genuine, project := newFixture(t).withRealGo(), t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(project, "go.mod"), []byte("module broken\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(project, "a.go"), []byte("package broken\n\nvar A = B\n"), 0o600))
		assert.Contains(t, genuine.run("-project", project).must(t, 1).stdout, "undefined: B")
		assert.Equal(t, "build", genuine.session().Phase)
	})
	t.Run("a missing go command is named in the error", func(t *testing.T) {
		lost := newFixture(t)
		lost.env = append(lost.env, "PATH=")
		assert.Contains(t, lost.run().must(t, 1).stdout, `FAILED in phase plan: go list ./...: exec: "go"`)
	})
}

// filesIn returns the contents of all files under root by path.
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
	t.Run("a missing session", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		for _, flags := range [][]string{{"-resume"}, {"-events"}, {"-session", "none"}, {"-session", "none", "-events"}} {
			assert.Contains(t, f.run(flags...).must(t, 1).stderr, "no such session")
		}
		assert.NoDirExists(t, f.state, "nothing was created")
		f.run().must(t, 0)
		assert.Contains(t, f.run("-session", "none").must(t, 1).stderr, f.session().ID, "it names the existing sessions")
	})
	const negative = `{"wall_clock_seconds":-1}`
	const start = `"session_started_at":"2026-01-01T00:00:00Z"`
	for problem, text := range map[string]string{
		"a session file without JSON":            `{"id": "`,
		"a session file of another session":      `{"id":"other",` + start + `,"status":"running"}`,
		"a session file without a start":         `{"id":"ID","status":"running"}`,
		"a session file with a strange status":   `{"id":"ID",` + start + `,"status":"weird"}`,
		"a session file with a budget below 0":   `{"id":"ID",` + start + `,"status":"running","budget":` + negative + `}`,
		"a session file that was emptied":        ``,
		"a session file whose start is in words": `{"id":"ID","session_started_at":"yesterday","status":"running"}`,
	} {
		t.Run(problem, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.run().must(t, 0)
			id := f.session().ID
			f.overwrite(text)
			assert.Contains(t, f.run("-session", id).must(t, 1).stderr, "corrupt session file")
			assert.Equal(t, []string{"complete"}, kinds(f.events("-session", id)), "its events can be printed all the same")
			f.run().must(t, 0) // a new session is not affected
		})
	}
	t.Run("a state directory that cannot be created", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		require.NoError(t, os.WriteFile(f.state, nil, 0o600))
		said := f.run().must(t, 1).stderr
		assert.Contains(t, said, "create state directory")
		assert.Contains(t, said, "name another one with -state")
	})
	t.Run("a state directory that everybody can write to", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		require.NoError(t, os.Mkdir(f.state, 0o700))
		require.NoError(t, os.Chmod(f.state, 0o777)) //nolint:gosec // that is what is refused
		assert.Contains(t, f.run().must(t, 1).stderr, "everybody can write to")
		assert.NoFileExists(t, filepath.Join(f.state, "events.db"))
	})
	t.Run("an invalid database file", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		require.NoError(t, os.Mkdir(f.state, 0o700))
		notADatabase := []byte("this is not a database, it is a text")
		require.NoError(t, os.WriteFile(filepath.Join(f.state, "events.db"), notADatabase, 0o600))
		assert.Contains(t, f.run().must(t, 1).stderr, "events.db")
		assert.NoFileExists(t, filepath.Join(f.state, "session.json"))
	})
	t.Run("a missing project, or not the session's", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		assert.Contains(t, f.run("-project", "nowhere").must(t, 1).stderr, "find project")
		assert.NoDirExists(t, f.state)
		f.run().must(t, 0)
		const another = "belongs to another project, the built-in demo"
		assert.Contains(t, f.run("-resume", "-project", "demo").must(t, 1).stderr, another)
	})
}

// overwrite replaces the content of the last session's file.
func (f *fixture) overwrite(text string) {
	f.t.Helper()
	id := f.session().ID
	text = strings.ReplaceAll(text, `"ID"`, strconv.Quote(id))
	require.NoError(f.t, os.WriteFile(filepath.Join(f.state, "session.json"), []byte(text), 0o600))
}
