package main_test

import (
	"math/rand/v2"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKilled(t *testing.T) {
	t.Parallel()
	t.Run("a session that was killed in a phase goes on with that phase in the same window", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		p := f.start("build  2 of 4", "-budget", "1h", "-hang", "build")
		hung := f.hung("build")
		p.signal(syscall.SIGKILL)
		left := f.session()
		assert.Equal(t, "running", left.Status)
		assert.Equal(t, []string{"plan"}, left.Completed)
		assertGone(t, hung)

		on := f.run("-session", left.ID).must(t, 0)
		assert.Regexp(t, `session_wall_clock_seconds +1h0m0s +session`, on.stdout, "it keeps its budget")
		after := f.session()
		assert.Equal(t, left.StartedAt, after.StartedAt)
		assert.Equal(t, []string{"list", "build", "vet", "test"}, f.commands())
		assert.Equal(t, []string{"complete"}, kinds(f.events()))
	})
	t.Run("the time until the next attach counts", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.start("plan   1 of 4", "-budget", "30m", "-hang", "plan").signal(syscall.SIGKILL)
		f.backdate(time.Hour)
		f.run("-session", f.session().ID).must(t, 3)
		assert.Equal(t, []string{"cancel"}, f.controlEvents())
		assert.GreaterOrEqual(t, f.session().ElapsedSeconds, 3600)
	})
	t.Run("a session killed at any moment can be attached again and finishes", killedAtAnyMoment)
}

// killedAtAnyMoment kills sessions at random moments until each one completes.
func killedAtAnyMoment(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f, kills, sessions := newFixture(t), 0, 0
	for ; kills < 60; sessions++ {
		f.start("plan   1 of 4").signal(syscall.SIGKILL)
		first := f.session()
		kills += 1 + f.killUntilComplete(first.ID, random)
		last := f.session()
		require.Equal(t, first.ID, last.ID)
		assert.Equal(t, []string{"plan", "build", "vet", "test"}, last.Completed)
		assert.Equal(t, first.StartedAt, last.StartedAt)
		assert.Equal(t, []string{"complete"}, kinds(f.events()), "once, however often it was killed")
	}
	t.Logf("%d sessions were killed %d times", sessions, kills)
}

// killUntilComplete attaches to the session and kills the program again and again, until a run finishes before the
// kill. It returns the number of kills.
func (f *fixture) killUntilComplete(id string, random *rand.Rand) (kills int) {
	f.t.Helper()
	for longest := 50 * time.Millisecond; ; longest += 10 * time.Millisecond {
		cmd := f.command("-session", id)
		require.NoError(f.t, cmd.Start())
		kill := time.AfterFunc(time.Duration(random.Int64N(int64(longest))), func() { cmd.Process.Kill() })
		cmd.Wait() // the status is checked below
		if kill.Stop(); cmd.ProcessState.Exited() {
			require.Zero(f.t, cmd.ProcessState.ExitCode())
			return kills
		}
		kills++
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	for signal, name := range map[syscall.Signal]string{
		syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP",
	} {
		t.Run(name+" ends the session, which can be attached again", func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			p := f.start("build  2 of 4", "-hang", "build")
			hung := f.hung("build")
			ended := p.signal(signal).must(t, 1)
			assert.Contains(t, ended.stdout, "INTERRUPTED by "+name+" in phase build")
			assertGone(t, hung)

			left := f.session()
			assert.Equal(t, "interrupted", left.Status)
			assert.Empty(t, left.StopReason)
			events := f.events()
			require.Equal(t, []string{"interrupt"}, kinds(events))
			assert.Equal(t, name, events[0].Payload["signal"])

			finish(t, f.shell(printed(t, ended.stdout, "to go on:"))).must(t, 0)
			assert.Equal(t, left.StartedAt, f.session().StartedAt)
			assert.Equal(t, []string{"list", "build", "vet", "test"}, f.commands())
		})
	}
}

func TestNoHup(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cmd := f.command("-hang", "plan")
	shell := f.shell(`trap "" HUP; exec "$@"`)
	shell.Args = append(shell.Args, append([]string{"sh"}, cmd.Args...)...)
	p := f.follow(shell, "plan   1 of 4")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	ended := p.signal(syscall.SIGTERM).must(t, 1)
	assert.Contains(t, ended.stdout, "INTERRUPTED by SIGTERM", "a signal ignored at the start stays ignored")
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.start("plan   1 of 4", "-hang", "plan")
	id := f.session().ID

	t.Run("a second process on one session fails and names the first", func(t *testing.T) {
		refused := f.run("-session", id).must(t, 1)
		assert.Contains(t, refused.stderr, "is being run by process")
		assert.Contains(t, refused.stderr, strconv.Itoa(p.cmd.Process.Pid))
	})
	t.Run("-events works while the session runs", func(t *testing.T) {
		assert.Empty(t, f.events("-session", id))
	})
	t.Run("another session runs beside it", func(t *testing.T) {
		f.run().must(t, 0)
	})
	t.Run("killing the process frees the session", func(t *testing.T) {
		p.signal(syscall.SIGKILL)
		f.run("-session", id).must(t, 0)
	})
}
