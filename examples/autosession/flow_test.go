package main_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestComplete(t *testing.T) {
	t.Parallel()
	t.Run("the built-in project passes all phases of the real go command", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t).withRealGo()
		done := f.run().must(t, 0)
		assert.Contains(t, done.stdout, "COMPLETE: plan, build, vet, test")
		assert.Contains(t, done.stdout, f.state, "the state directory")
		assert.Equal(t, []string{"complete"}, kinds(f.events()))
		assert.Contains(t, f.log("plan"), "autosession/demo/rpn")
		assert.Contains(t, f.log("test"), "ok")
	})
	t.Run("a complete session stays complete, and says how to run it once more", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.run().must(t, 0)
		first := f.session()
		assert.Equal(t, "complete", first.Status)
		again := f.run("-session", first.ID).must(t, 0)
		assert.Contains(t, again.stdout, "COMPLETE: plan, build, vet, test")
		assert.Equal(t, first, f.session())
		assert.Equal(t, []string{"list", "build", "vet", "test"}, f.commands())

		finish(t, f.shell(printed(t, again.stdout, "once more:"))).must(t, 0)
		assert.Equal(t, []string{"list", "build", "vet", "test", "list", "build", "vet", "test"}, f.commands())
		assert.Equal(t, []string{"complete", "resume", "complete"}, kinds(f.events()))
		assert.True(t, f.session().StartedAt.After(first.StartedAt), "the window is a fresh one")
	})
	t.Run("a session that was killed before its file said that it is complete is complete", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.run().must(t, 0)
		first := f.session()
		f.overwrite(`{"id":"ID","session_started_at":"` + first.StartedAt.Format(time.RFC3339Nano) + `",` +
			`"status":"running","phase":"test","completed_phases":["plan","build","vet"],` +
			`"budget":{"wall_clock_seconds":0.001}}`)
		assert.Contains(t, f.run("-session", first.ID).must(t, 0).stdout, "COMPLETE: plan, build, vet, test")
		assert.Equal(t, "complete", f.session().Status)
		assert.Equal(t, first.Completed, f.session().Completed)
		assert.Equal(t, []string{"list", "build", "vet", "test"}, f.commands())
		assert.Equal(t, []string{"complete"}, kinds(f.events()), "the budget is used up, and no cancel came")
	})
	t.Run("the phases of a user's project run in its directory", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t).withRealGo()
		f.run("-project", "demo/rpn").must(t, 0)
		assert.Contains(t, f.log("plan"), "examples/autosession/demo/rpn")
		assert.NoDirExists(t, filepath.Join(f.state, "sessions", f.session().ID, "demo"))
	})
}

func TestBlocked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	blocked := f.run("-budget", "5s", "-hang", "test").must(t, 3)
	stopped := f.session()

	t.Run("a session whose last phase hangs is blocked with its reason", func(t *testing.T) {
		assert.Contains(t, blocked.stdout, "BLOCKED in phase test: watchdog_wall_clock_exceeded")
		assert.Equal(t, "blocked", stopped.Status)
		assert.Equal(t, "test", stopped.Phase)
		assert.Equal(t, []string{"plan", "build", "vet"}, stopped.Completed)
		assert.Equal(t, "watchdog_wall_clock_exceeded", stopped.StopReason)
		assert.GreaterOrEqual(t, stopped.ElapsedSeconds, 5)
	})
	t.Run("a warning came first", func(t *testing.T) {
		assert.Contains(t, blocked.stdout, "warning: 80% of the budget of 5s is used")
		assert.Equal(t, []string{"warning", "cancel"}, kinds(f.events()))
	})
	t.Run("the command that ignores interrupts has ended", func(t *testing.T) {
		assertGone(t, f.hung("test"))
	})
	t.Run("attaching again prints the same and records nothing", func(t *testing.T) {
		before := f.events()
		again := f.run("-session", stopped.ID).must(t, 3)
		assert.Contains(t, again.stdout, "BLOCKED in phase test: watchdog_wall_clock_exceeded")
		assert.Equal(t, stopped, f.session())
		assert.Equal(t, before, f.events())
	})
	t.Run("a larger budget alone does not undo the stop", func(t *testing.T) {
		f.run("-session", stopped.ID, "-budget", "1h").must(t, 3)
	})
	t.Run("the printed commands show the events and resume the session", func(t *testing.T) {
		events := finish(t, f.shell(printed(t, blocked.stdout, "its events:"))).must(t, 0)
		assert.Contains(t, events.stdout, "runtime.watchdog.cancel")

		resumed := finish(t, f.shell(printed(t, blocked.stdout, "to go on:"))).must(t, 0)
		assert.Contains(t, resumed.stdout, "COMPLETE: plan, build, vet, test")
		assert.Equal(t, []string{"list", "build", "vet", "test"}, f.commands(), "only the unfinished phases run")
		assert.Equal(t, []string{"warning", "cancel", "resume"}, kinds(f.events())[:3])
		after := f.session()
		assert.Equal(t, "complete", after.Status)
		assert.Empty(t, after.StopReason)
		assert.True(t, after.StartedAt.After(stopped.StartedAt), "the window is a fresh one")
	})
}

func TestWindows(t *testing.T) {
	t.Parallel()
	t.Run("each window that ends has its own cancel", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.run("-budget", "50ms", "-hang", "plan").must(t, 3)
		f.run("-resume", "-budget", "50ms", "-hang", "plan").must(t, 3)
		f.run("-resume", "-budget", "50ms", "-hang", "plan").must(t, 3)
		assert.Equal(t, []string{"cancel", "resume", "cancel", "resume", "cancel"}, f.controlEvents())
	})
	t.Run("a resume opens a fresh window if the old one ended while no process ran", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.start("plan   1 of 4", "-budget", "30m", "-hang", "plan").signal(syscall.SIGKILL)
		f.backdate(time.Hour)
		f.run("-resume").must(t, 0)
		assert.Equal(t, []string{"cancel", "resume", "complete"}, f.controlEvents())
	})
	t.Run("two sessions share a directory, and the last one is the default", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.run("-budget", "50ms", "-hang", "plan").must(t, 3)
		first := f.session()
		f.run().must(t, 0)
		assert.NotEqual(t, first.ID, f.session().ID)
		f.run("-session", first.ID, "-resume", "-budget", "1h").must(t, 0)
		assert.Equal(t, first.ID, f.session().ID)
		assert.Equal(t, f.events("-session", first.ID), f.events())
	})
}

// printed returns the rest of the line after a label.
func printed(t *testing.T, text, label string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^ *` + label + ` +(.*)$`).FindStringSubmatch(text)
	require.Len(t, found, 2, "%q in\n%s", label, text)
	return found[1]
}

// shell runs a line as a person pastes it into a shell.
func (f *fixture) shell(line string) *exec.Cmd {
	cmd := exec.CommandContext(f.t.Context(), "sh", "-c", line)
	cmd.Env = f.command().Env
	return cmd
}
