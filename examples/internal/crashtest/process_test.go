package crashtest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process is a child of the test.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	jobs   *json.Encoder
	input  io.Closer
	lines  *json.Decoder
	stderr bytes.Buffer
}

// start starts a child that watches runs.
func start(t *testing.T, database string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), self)}
	// Without GORACE each child would exit a second late.
	p.cmd.Env = append(os.Environ(), asChild+"="+database, "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	p.jobs, p.input, p.lines = json.NewEncoder(in), in, json.NewDecoder(out)
	return p
}

// next reads the child's next line. It returns false if the child ended first.
func (p *process) next() (said line, ok bool) {
	return said, p.lines.Decode(&said) == nil
}

// must is next for a child that nothing kills.
func (p *process) must() line {
	p.t.Helper()
	said, ok := p.next()
	if !ok {
		p.cmd.Wait()
		require.FailNow(p.t, "the child ended early", p.stderr.String())
	}
	return said
}

// wait waits for the child and reports whether it was killed. It fails the test if the child failed.
func (p *process) wait() (killed bool) {
	p.t.Helper()
	err := p.cmd.Wait()
	if p.cmd.ProcessState.Exited() {
		require.NoErrorf(p.t, err, "the child printed\n%s", &p.stderr)
	}
	return !p.cmd.ProcessState.Exited()
}
