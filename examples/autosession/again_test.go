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
		b := newBed(t)
		p := b.start("build  2 of 4", "-budget", "1h", "-hang", "build")
		hung := b.hung("build")
		p.signal(syscall.SIGKILL)
		left := b.session()
		assert.Equal(t, "running", left.Status)
		assert.Equal(t, []string{"plan"}, left.Completed)
		assertGone(t, hung)

		on := b.run("-session", left.ID).must(t, 0)
		assert.Regexp(t, `session_wall_clock_seconds +1h0m0s +session`, on.stdout, "it keeps its budget")
		after := b.session()
		assert.Equal(t, left.StartedAt, after.StartedAt)
		assert.Equal(t, []string{"list", "build", "vet", "test"}, b.commands())
		assert.Empty(t, b.events())
	})
	t.Run("the time until it is attached counts", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.start("plan   1 of 4", "-budget", "30m", "-hang", "plan").signal(syscall.SIGKILL)
		b.backdate(time.Hour)
		b.run("-session", b.session().ID).must(t, 3)
		assert.Equal(t, []string{"cancel"}, b.turns())
		assert.GreaterOrEqual(t, b.session().ElapsedSeconds, 3600)
	})
	t.Run("killed at any moment it can be attached again, and does what is left", killedAtAnyMoment)
}

// killedAtAnyMoment kills sessions again and again until each got to its end.
func killedAtAnyMoment(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	b, kills, sessions := newBed(t), 0, 0
	for ; kills < 60; sessions++ {
		b.start("plan   1 of 4").signal(syscall.SIGKILL)
		first := b.session()
		kills += 1 + b.killUntilComplete(first.ID, random)
		last := b.session()
		require.Equal(t, first.ID, last.ID)
		assert.Equal(t, []string{"plan", "build", "vet", "test"}, last.Completed)
		assert.Equal(t, first.StartedAt, last.StartedAt)
		assert.Empty(t, b.events())
	}
	t.Logf("%d sessions were killed %d times", sessions, kills)
}

// killUntilComplete attaches to the session and kills the program, until it was too fast.
func (b *bed) killUntilComplete(id string, random *rand.Rand) (kills int) {
	b.t.Helper()
	for longest := 50 * time.Millisecond; ; longest += 10 * time.Millisecond {
		cmd := b.command("-session", id)
		require.NoError(b.t, cmd.Start())
		bomb := time.AfterFunc(time.Duration(random.Int64N(int64(longest))), func() { cmd.Process.Kill() })
		cmd.Wait() // its error is in the status
		if bomb.Stop(); cmd.ProcessState.Exited() {
			require.Zero(b.t, cmd.ProcessState.ExitCode())
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
			b := newBed(t)
			p := b.start("build  2 of 4", "-hang", "build")
			hung := b.hung("build")
			ended := p.signal(signal).must(t, 1)
			assert.Contains(t, ended.stdout, "INTERRUPTED by "+name+" in phase build")
			assertGone(t, hung)

			left := b.session()
			assert.Equal(t, "interrupted", left.Status)
			assert.Empty(t, left.StopReason)
			events := b.events()
			require.Equal(t, []string{"interrupt"}, kinds(events))
			assert.Equal(t, name, events[0].Payload["signal"])

			finish(t, b.shell(printed(t, ended.stdout, "to go on:"))).must(t, 0)
			assert.Equal(t, left.StartedAt, b.session().StartedAt)
			assert.Equal(t, []string{"list", "build", "vet", "test"}, b.commands())
		})
	}
}

func TestNoHup(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	cmd := b.command("-hang", "plan")
	shell := b.shell(`trap "" HUP; exec "$@"`)
	shell.Args = append(shell.Args, append([]string{"sh"}, cmd.Args...)...)
	p := b.follow(shell, "plan   1 of 4")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	ended := p.signal(syscall.SIGTERM).must(t, 1)
	assert.Contains(t, ended.stdout, "INTERRUPTED by SIGTERM", "a signal that it was started to ignore stays ignored")
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("plan   1 of 4", "-hang", "plan")
	id := b.session().ID

	t.Run("a second process on the same session is refused and says who has it", func(t *testing.T) {
		refused := b.run("-session", id).must(t, 1)
		assert.Contains(t, refused.stderr, "is being run by process")
		assert.Contains(t, refused.stderr, strconv.Itoa(p.cmd.Process.Pid))
	})
	t.Run("its events can be printed meanwhile", func(t *testing.T) {
		assert.Empty(t, b.events("-session", id))
	})
	t.Run("another session runs beside it", func(t *testing.T) {
		b.run().must(t, 0)
	})
	t.Run("the session is free once its process was killed", func(t *testing.T) {
		p.signal(syscall.SIGKILL)
		b.run("-session", id).must(t, 0)
	})
}
