package main_test

import (
	"bufio"
	"io"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed62658d38/watchdog/internal/escape"
)

// A live program is running.
type live struct {
	*testing.T
	cmd    *exec.Cmd
	lines  *bufio.Reader
	stderr *saidText
}

// start starts a program and waits until its command has printed ready.
func start(t *testing.T, cmd *exec.Cmd) *live {
	t.Helper()
	p := &live{T: t, cmd: cmd, stderr: &saidText{}}
	cmd.Stderr = p.stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	p.lines = bufio.NewReader(out)
	line, err := p.lines.ReadString('\n')
	require.NoErrorf(t, err, "it printed %q and %q", line, p.stderr)
	require.Equal(t, "ready\n", line)
	return p
}

func (p *live) signal(sig syscall.Signal) {
	p.Helper()
	require.NoError(p, p.cmd.Process.Signal(sig))
}

func (p *live) end() outcome {
	p.Helper()
	rest, err := io.ReadAll(p.lines)
	require.NoError(p, err)
	p.cmd.Wait() // the status is returned
	return outcome{string(rest), p.stderr.String(), p.cmd.ProcessState.ExitCode()}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sig  syscall.Signal
		says string
	}{
		{syscall.SIGINT, "by SIGINT: ended by SIGINT\n"},
		{syscall.SIGTERM, "by SIGTERM: ended by SIGINT\n"},
		{syscall.SIGHUP, "by SIGHUP: ended by SIGINT\n"},
	} {
		t.Run("the command ends with "+c.sig.String(), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			p := start(t, f.cmd("--no-output 5m", f.child("leave", "say:ready", "stay")...))
			p.signal(c.sig)
			o := p.end().must(t, 128+int(c.sig))
			assert.Regexp(t, `^watchdog: the command was interrupted after \d+s `+c.says+"$", o.stderr)
			assert.Empty(t, escape.WithToken(f.token))
		})
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run("a second "+sig.String()+" ends watchdog and every process of the command", func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			p := start(t, f.cmd("--grace-int 5m", f.child("leave", "ignore:INT", "ignore:TERM", "say:ready", "stay")...))
			p.signal(sig)
			eventually(t, "nothing is left, once it is no repeat any more", func() bool {
				p.signal(sig)
				return len(escape.WithToken(f.token)) == 0
			})
			p.end()
			assert.Equal(t, sig, p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
		})
	}
	t.Run("SIGQUIT is passed on, and the command decides what it means", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		p := start(t, f.cmd("--no-output 5m", f.child("quit:7")...))
		p.signal(syscall.SIGQUIT)
		o := p.end().must(t, 7)
		assert.Equal(t, "quit\n", o.stdout)
		assert.Empty(t, o.stderr)
	})
}

// GNU timeout sends its signal to its child and then to its group: watchdog gets it twice in one instant. So it
// does with a signal that it gets itself.
func TestUnderTimeout(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("timeout"); err != nil {
		t.Skip(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String()+" ends the command in its grace", func(t *testing.T) {
			t.Parallel()
			for range 20 {
				f := newFixture(t)
				p := start(t, under(f.cmd("", f.child("say:ready", "stay")...), "timeout", "1h"))
				p.signal(sig)
				says := `^watchdog: the command was interrupted after \d+s by ` + unix.SignalName(sig) + `: ended by SIGINT\n$`
				assert.Regexp(t, says, p.end().stderr)
			}
		})
	}
}

// under returns a command under another program.
func under(cmd *exec.Cmd, program ...string) *exec.Cmd {
	around := exec.Command(program[0], append(append(program[1:], cmd.Path), cmd.Args[1:]...)...)
	around.Dir, around.Env = cmd.Dir, cmd.Env
	return around
}

func TestNohup(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	command := f.child("kill:HUP", "say:ready", "await:"+f.path("go"), "exit:4")
	p := start(t, under(f.cmd("--no-output 5m", command...), "nohup"))
	p.signal(syscall.SIGHUP)
	require.NoError(t, stepFuncs["touch"](f.path("go")))
	o := p.end().must(t, 4)
	assert.NotContains(t, o.stderr, "watchdog:")
}
