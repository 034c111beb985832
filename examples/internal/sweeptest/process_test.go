package sweeptest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process is a child of the test.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	input  io.Closer
	lines  *json.Decoder
	wait   func() error // once, however often it is called
	stderr bytes.Buffer
}

// start starts a child.
func start(t *testing.T, j job) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(j)
	require.NoError(t, err)
	p := &process{t: t, cmd: exec.Command(self)}
	// Without GORACE each child would exit a second late.
	p.cmd.Env = append(os.Environ(), asChild+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = &p.stderr
	p.input, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	p.lines, p.wait = json.NewDecoder(out), sync.OnceValue(p.cmd.Wait)
	t.Cleanup(p.kill)
	return p
}

// must returns the child's next line.
func (p *process) must() (said line) {
	p.t.Helper()
	if err := p.lines.Decode(&said); err != nil {
		p.kill()
		require.FailNow(p.t, "the child ended early", "%v\n%s", err, &p.stderr)
	}
	return said
}

// kill sends SIGKILL and waits for the child. One that has exited stays as it is.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.wait()
}

// end makes the child exit by itself, and waits for it.
func (p *process) end() {
	p.t.Helper()
	require.NoError(p.t, p.input.Close())
	require.NoError(p.t, p.wait(), p.stderr.String())
}
