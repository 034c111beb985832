package main_test

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
)

// A live program is running.
type live struct {
	*testing.T
	cmd    *exec.Cmd
	lines  *bufio.Reader
	stderr *strings.Builder
}

// start starts a program and waits until its command has printed ready.
func start(t *testing.T, cmd *exec.Cmd) *live {
	t.Helper()
	p := &live{T: t, cmd: cmd, stderr: &strings.Builder{}}
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
	t.Run("a second signal ends watchdog and every process of the command", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		p := start(t, f.cmd("--grace-int 5m", f.child("leave", "ignore:INT", "ignore:TERM", "say:ready", "stay")...))
		p.signal(syscall.SIGTERM)
		eventually(t, "the obeying processes have ended", func() bool { return len(escape.WithToken(f.token)) == 1 })
		p.signal(syscall.SIGTERM)
		p.end()
		assert.Equal(t, syscall.SIGTERM, p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
		eventually(t, "nothing is left", func() bool { return len(escape.WithToken(f.token)) == 0 })
	})
	t.Run("SIGQUIT is passed on, and the command decides what it means", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		p := start(t, f.cmd("--no-output 5m", f.child("quit:7")...))
		p.signal(syscall.SIGQUIT)
		o := p.end().must(t, 7)
		assert.Equal(t, "quit\n", o.stdout)
		assert.Empty(t, o.stderr)
	})
	t.Run("a command that finished before a signal keeps its status", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		p := start(t, f.cmd("", f.child("say:ready", "exit:6")...))
		p.end().must(t, 6)
	})
}

func TestNohup(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	nohup := func(cmd *exec.Cmd) *exec.Cmd {
		under := exec.Command("nohup", append([]string{cmd.Path}, cmd.Args[1:]...)...)
		under.Dir, under.Env = cmd.Dir, cmd.Env
		return under
	}
	p := start(t, nohup(f.cmd("--no-output 5m", f.child("kill:HUP", "say:ready", "await:"+f.path("go"), "exit:4")...)))
	p.signal(syscall.SIGHUP)
	require.NoError(t, stepFuncs["touch"](f.path("go")))
	o := p.end().must(t, 4)
	assert.NotContains(t, o.stderr, "watchdog:")
}
