package main_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/internal/story"
	"github.com/seed62658d38/watchdog/session"
)

func TestWithoutPassword(t *testing.T) {
	t.Parallel()
	for store, want := range map[string]string{
		"sqlite:runs.db":                                  "sqlite:runs.db",
		"postgres://host/db":                              "postgres://host/db",
		"postgres://me@host:5432/db?sslmode=require":      "postgres://me@host:5432/db?sslmode=require",
		"postgres://me:canary@host/db":                    "postgres://me@host/db",
		"postgresql:///db?user=me&password=canary&host=a": "postgresql:///db?host=a&user=me",
		"postgres://host/db?sslPassword=canary":           "postgres://host/db",
		"postgres://me:can ary%@host/db":                  "...",
		"postgres:host=a password=canary":                 "...",
	} {
		assert.Equal(t, want, stores.WithoutPassword(store), store)
	}
}

// TestPaste has a shell run what is said to be run next, about a run whose name a shell would take for more.
func TestPaste(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "it's $(not) run.db")
	const id = "-it's $HOME; é bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	store := openStore(t, url)
	stopped(t, store, id)
	_, _, err := store.Attach(t.Context(), session.Session{RunID: id + " live", StartedAt: time.Now(), Host: "b"})
	require.NoError(t, err)
	require.NoError(t, store.Append(t.Context(), interrupted(id+" live", "SIGHUP", 0)))
	require.NoError(t, store.Close())
	resume := nextLine(t, program(t, "why", "--store", url, "--", id))
	assert.Contains(t, firstLine(t, resume), "has a fresh window since")
	tail := nextLine(t, program(t, "why", "--store", url, "--", id+" live"))
	assert.Contains(t, firstLine(t, tail), "interrupted by SIGHUP")
	shorter := nextLine(t, programIn(t, []string{"WATCHDOG_STORE=" + url}, "why", "--", id+" live"))
	assert.Equal(t, strings.Replace(tail, " --store "+story.ShellQuote(url), "", 1), shorter, "it has the variable, too")
}

// nextLine is the line of a story that is to be run next.
func nextLine(t *testing.T, told outcome) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^ {9}(watchdog .*)$`).FindStringSubmatch(told.stdout)
	require.Len(t, found, 2, told)
	return found[1]
}

// firstLine has a shell, to which watchdog is the program, run a line, and returns the first line that it prints.
func firstLine(t *testing.T, line string) string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "watchdog")))
	cmd := exec.CommandContext(t.Context(), bash, "-c", "exec "+line)
	cmd.Env = append(programCmd(t, nil).Env, "PATH="+dir+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	first, _ := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill() // one that follows goes on
	_ = cmd.Wait()
	return first
}
