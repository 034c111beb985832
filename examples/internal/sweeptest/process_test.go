package sweeptest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A process is a child of the test.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	input  io.Closer
	said   chan line // closed when it has ended and was waited for
	killed bool
	err    error // how it ended, once said is closed
	stderr bytes.Buffer
}

// start starts a child. What it says must be taken from said.
func start(t *testing.T, j job) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(j)
	require.NoError(t, err)
	p := &process{t: t, cmd: exec.Command(self), said: make(chan line, 16)}
	p.cmd.Env = append(os.Environ(), asChild+"="+string(text), "GORACE=atexit_sleep_ms=0") // or each would end a second late
	p.cmd.Stderr = &p.stderr
	p.input, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go p.read(out)
	t.Cleanup(func() {
		p.kill()
		for range p.said {
		}
	})
	return p
}

func (p *process) read(out io.Reader) {
	defer close(p.said)
	for lines := json.NewDecoder(out); ; {
		var said line
		if lines.Decode(&said) != nil {
			break
		}
		p.said <- said
	}
	p.err = p.cmd.Wait()
}

// kill is SIGKILL.
func (p *process) kill() {
	p.killed = true
	_ = p.cmd.Process.Kill() // one that has ended is what we want
}

// end has it end by itself.
func (p *process) end() { p.input.Close() }

// must is what the child says next.
func (p *process) must() line {
	p.t.Helper()
	select {
	case said, there := <-p.said:
		if !there {
			require.FailNow(p.t, "the child ended early", "%v\n%s", p.err, &p.stderr)
		}
		return said
	case <-time.After(patience):
		require.FailNow(p.t, "the child says nothing")
		return line{}
	}
}

// wait waits for its end, which must not be an error of its own.
func (p *process) wait() {
	p.t.Helper()
	for range p.said {
	}
	if !p.killed {
		require.NoError(p.t, p.err, p.stderr.String())
	}
}
