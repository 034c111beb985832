//go:build linux

package histories_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	processes = 3 // that live at once
	// faultPause is how long it is on average from a fault of a process to the next.
	faultPause = 100 * time.Millisecond
	// patience is how long a process may take to end after the last slot.
	patience = time.Minute
)

// A process is a child that calls a store.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	done   chan struct{} // closed when it has ended and was waited for
	err    error         // of Wait
}

// A crowd is the processes of a test, with those that were killed.
type crowd struct {
	*testing.T
	database
	folder string
	began  time.Duration
	length time.Duration
	rand   *rand.Rand

	living   [processes]*process
	journals []string
	killed   int
	stopped  int
	cut      int
}

// run has processes call the store until the length is over, with faults, and returns what is in their journals.
func (c *crowd) run() (journals [][]line) {
	c.Helper()
	c.began = sinceBoot()
	for i := range c.living {
		c.spawn(i)
	}
	var cuts sync.WaitGroup
	own := rand.New(rand.NewPCG(c.rand.Uint64(), 0))
	cuts.Go(func() {
		for c.goesOn() {
			pause(own, 2*faultPause)
			if !assert.NoError(c, c.faults[own.IntN(len(c.faults))](own)) {
				return
			}
			c.cut++
		}
	})
	for c.goesOn() {
		pause(c.rand, 2*faultPause)
		c.fault()
	}
	cuts.Wait()
	for _, p := range c.living {
		c.wait(p)
	}
	for _, path := range c.journals {
		lines, err := readJournal(path)
		require.NoError(c, err)
		journals = append(journals, lines)
	}
	c.Logf("%d processes, of which %d were killed; %d stops, %d cuts and locks of the database", len(c.journals), c.killed,
		c.stopped, c.cut)
	return journals
}

func (c *crowd) goesOn() bool { return sinceBoot()-c.began < c.length }

// spawn starts a process in a place, which cannot outlive the test.
func (c *crowd) spawn(place int) {
	c.Helper()
	self, err := os.Executable()
	require.NoError(c, err)
	name := fmt.Sprintf("p%d", len(c.journals))
	j := job{
		Name: name, Database: c.address, Journal: filepath.Join(c.folder, name+".journal"), Began: c.began,
		Length: c.length, Seed: c.rand.Uint64(),
	}
	text, err := json.Marshal(j)
	require.NoError(c, err)
	require.NoError(c, os.WriteFile(j.Journal, nil, 0o600)) // also of one that is killed before it opens it
	c.journals = append(c.journals, j.Journal)
	p := &process{cmd: exec.Command(self), done: make(chan struct{})} //nolint:noctx // it ends by itself, or is killed
	// Without GORACE each child would exit a second late.
	p.cmd.Env = append(os.Environ(), asChild+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // one that is stopped does nothing else
	require.NoError(c, p.cmd.Start())
	c.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.done })
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	c.living[place] = p
}

// fault kills a process, or stops it for a while.
func (c *crowd) fault() {
	c.Helper()
	place := c.rand.IntN(processes)
	p := c.living[place]
	if c.rand.IntN(2) == 0 {
		_ = p.cmd.Process.Kill() // it fails if the process has ended
		<-p.done
		c.killed++
		c.spawn(place)
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	pause(c.rand, 2*slot)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	c.stopped++
}

// wait waits for a process that nobody killed.
func (c *crowd) wait(p *process) {
	c.Helper()
	select {
	case <-p.done:
		require.NoErrorf(c, p.err, "the process printed\n%s", &p.stderr)
	case <-time.After(patience):
		require.Fail(c, "a process does not end")
	}
}
