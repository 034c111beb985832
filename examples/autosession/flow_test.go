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
	t.Run("the shipped project is planned, built, vetted and tested by the real go command", func(t *testing.T) {
		t.Parallel()
		b := newBed(t).withRealGo()
		done := b.run().must(t, 0)
		assert.Contains(t, done.stdout, "COMPLETE: plan, build, vet, test")
		assert.Contains(t, done.stdout, b.state, "where the state is")
		assert.Empty(t, b.events())
		assert.Contains(t, b.log("plan"), "autosession/demo/rpn")
		assert.Contains(t, b.log("test"), "ok")
	})
	t.Run("a complete session stays complete, attached or resumed", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.run().must(t, 0)
		first := b.session()
		assert.Equal(t, "complete", first.Status)
		for _, flags := range [][]string{{"-session", first.ID}, {"-resume"}, {"-session", first.ID, "-resume"}} {
			assert.Contains(t, b.run(flags...).must(t, 0).stdout, "COMPLETE")
		}
		assert.Equal(t, first, b.session())
		assert.Equal(t, []string{"list", "build", "vet", "test"}, b.commands())
	})
	t.Run("a project of the user's is worked on in its own directory", func(t *testing.T) {
		t.Parallel()
		b := newBed(t).withRealGo()
		b.run("-project", "demo/rpn").must(t, 0)
		assert.Contains(t, b.log("plan"), "examples/autosession/demo/rpn")
		assert.NoDirExists(t, filepath.Join(b.state, "demo"))
	})
}

func TestBlocked(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	blocked := b.run("-budget", "5s", "-hang", "test").must(t, 3)
	stopped := b.session()

	t.Run("a session whose last phase hangs is blocked with its reason", func(t *testing.T) {
		assert.Contains(t, blocked.stdout, "BLOCKED in phase test: watchdog_wall_clock_exceeded")
		assert.Equal(t, "blocked", stopped.Status)
		assert.Equal(t, "test", stopped.Phase)
		assert.Equal(t, []string{"plan", "build", "vet"}, stopped.Completed)
		assert.Equal(t, "watchdog_wall_clock_exceeded", stopped.StopReason)
		assert.GreaterOrEqual(t, stopped.ElapsedSeconds, 5)
	})
	t.Run("it was warned before", func(t *testing.T) {
		assert.Contains(t, blocked.stdout, "warning: 80% of the budget of 5s is used")
		assert.Equal(t, []string{"warning", "cancel"}, kinds(b.events()))
	})
	t.Run("the phase that ignores interrupts is gone", func(t *testing.T) {
		assertGone(t, b.hung("test"))
	})
	t.Run("attaching says the same again and records nothing", func(t *testing.T) {
		before := b.events()
		again := b.run("-session", stopped.ID).must(t, 3)
		assert.Contains(t, again.stdout, "BLOCKED in phase test: watchdog_wall_clock_exceeded")
		assert.Equal(t, stopped, b.session())
		assert.Equal(t, before, b.events())
	})
	t.Run("a larger budget does not lift the stop by itself", func(t *testing.T) {
		b.run("-session", stopped.ID, "-budget", "1h").must(t, 3)
	})
	t.Run("the commands that it printed show the events and resume the session", func(t *testing.T) {
		events := finish(t, b.shell(printed(t, blocked.stdout, "its events:"))).must(t, 0)
		assert.Contains(t, events.stdout, "runtime.watchdog.cancel")

		resumed := finish(t, b.shell(printed(t, blocked.stdout, "to go on:"))).must(t, 0)
		assert.Contains(t, resumed.stdout, "COMPLETE: plan, build, vet, test")
		assert.Equal(t, []string{"list", "build", "vet", "test"}, b.commands(), "only what was left is done")
		assert.Equal(t, []string{"warning", "cancel", "resume"}, kinds(b.events())[:3])
		after := b.session()
		assert.Equal(t, "complete", after.Status)
		assert.Empty(t, after.StopReason)
		assert.True(t, after.StartedAt.After(stopped.StartedAt), "the window is a fresh one")
	})
}

func TestWindows(t *testing.T) {
	t.Parallel()
	t.Run("each window that ends has its own cancel", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.run("-budget", "50ms", "-hang", "plan").must(t, 3)
		b.run("-resume", "-budget", "50ms", "-hang", "plan").must(t, 3)
		b.run("-resume", "-budget", "50ms", "-hang", "plan").must(t, 3)
		assert.Equal(t, []string{"cancel", "resume", "cancel", "resume", "cancel"}, b.turns())
	})
	t.Run("a resume of a session that ran out of its window unseen opens a fresh one", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.start("plan   1 of 4", "-budget", "30m", "-hang", "plan").signal(syscall.SIGKILL)
		b.backdate(time.Hour)
		b.run("-resume").must(t, 0)
		assert.Equal(t, []string{"cancel", "resume"}, b.turns())
	})
	t.Run("two sessions live in one directory, and the last one is meant where none is named", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.run("-budget", "50ms", "-hang", "plan").must(t, 3)
		first := b.session()
		b.run().must(t, 0)
		assert.NotEqual(t, first.ID, b.session().ID)
		b.run("-session", first.ID, "-resume", "-budget", "1h").must(t, 0)
		assert.Equal(t, first.ID, b.session().ID)
		assert.Equal(t, b.events("-session", first.ID), b.events())
	})
}

// printed is what stands after a label in what the program printed.
func printed(t *testing.T, text, label string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^ *` + label + ` +(.*)$`).FindStringSubmatch(text)
	require.Len(t, found, 2, "%q in\n%s", label, text)
	return found[1]
}

// shell is a line as a person pastes it.
func (b *bed) shell(line string) *exec.Cmd {
	cmd := exec.CommandContext(b.t.Context(), "sh", "-c", line)
	cmd.Env = b.command().Env
	return cmd
}
