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
	said   chan line // closed once the child has exited
	killed bool
	err    error // the result of Wait, once said is closed
	stderr bytes.Buffer
}

// start starts a child. The test must receive its lines from said.
func start(t *testing.T, j job) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(j)
	require.NoError(t, err)
	p := &process{t: t, cmd: exec.Command(self), said: make(chan line, 16)}
	// Without GORACE each child would exit a second late.
	p.cmd.Env = append(os.Environ(), asChild+"="+string(text), "GORACE=atexit_sleep_ms=0")
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

// kill sends SIGKILL.
func (p *process) kill() {
	p.killed = true
	_ = p.cmd.Process.Kill() // the child may have exited already
}

// end makes the child exit by itself.
func (p *process) end() { p.input.Close() }

// must returns the child's next line.
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

// wait waits for the child's end. It fails the test if the child failed.
func (p *process) wait() {
	p.t.Helper()
	for range p.said {
	}
	if !p.killed {
		require.NoError(p.t, p.err, p.stderr.String())
	}
}
