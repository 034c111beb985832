//go:build linux

package histories_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
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
	// patience is how long processes may take for anything.
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
	job    // of all, but for the name and the seed
	rand   *rand.Rand
	calls  *tally
	living [processes]*process
	paths  []string // of the journals
}

// start starts processes that make so many calls, of objects that come again after so many slots. Their faults are
// random.
func start(t *testing.T, db database, calls, slots int64) *crowd {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("the faults are those of seed %d", seed)
	c := &crowd{
		T: t, database: db, job: job{Database: db.address, Folder: t.TempDir(), Calls: calls, Slots: slots},
		rand: rand.New(rand.NewPCG(seed, 0)),
	}
	var err error
	c.calls, err = openTally(c.tally())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.calls.close()) })
	c.spawnAll()
	return c
}

func (c *crowd) spawnAll() {
	c.Helper()
	for i := range c.living {
		c.spawn(i)
	}
}

// disturb has faults of processes and of the database until there were enough calls.
func (c *crowd) disturb() {
	c.Helper()
	faults := 0
	var ofDatabase sync.WaitGroup
	own := rand.New(rand.NewPCG(c.rand.Uint64(), 0))
	ofDatabase.Go(func() {
		var err error
		faults, err = c.database.disturb(own, c.goesOn)
		assert.NoError(c, err)
	})
	killed, stopped := 0, 0
	for c.goesOn() {
		pause(c.rand, 2*faultPause)
		if place := c.rand.IntN(processes); c.rand.IntN(2) == 0 {
			c.living[place].kill()
			c.spawn(place)
			killed++
		} else {
			c.living[place].stop(c.rand)
			stopped++
		}
	}
	ofDatabase.Wait()
	c.Logf("%d processes were killed and %d stopped, the database had %d faults", killed, stopped, faults)
}

// journals waits for the processes, and returns what is in their journals and those of others before.
func (c *crowd) journals() (all [][]line) {
	c.Helper()
	for _, p := range c.living {
		c.wait(p)
	}
	for _, path := range c.paths {
		lines, err := readJournal(path)
		require.NoError(c, err)
		all = append(all, lines)
	}
	return all
}

func (c *crowd) goesOn() bool { return c.calls.Load() < c.Calls }

// untilCalls waits until there were so many calls.
func (c *crowd) untilCalls(n int64) error {
	for began := time.Now(); c.calls.Load() < n; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			return fmt.Errorf("the processes make %d calls instead of %d", c.calls.Load(), n)
		}
	}
	return nil
}

// spawn starts a process in a place, which cannot outlive the test.
func (c *crowd) spawn(place int) {
	c.Helper()
	self, err := os.Executable()
	require.NoError(c, err)
	j := c.job
	j.Name, j.Seed = fmt.Sprintf("p%d", len(c.paths)), c.rand.Uint64()
	text, err := json.Marshal(j)
	require.NoError(c, err)
	require.NoError(c, os.WriteFile(j.journal(), nil, 0o600)) // also of one that is killed before it opens it
	c.paths = append(c.paths, j.journal())
	p := &process{cmd: exec.Command(self), done: make(chan struct{})}
	// Without GORACE each child would exit a second late.
	p.cmd.Env = append(os.Environ(), asChild+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // one that is stopped does nothing else
	require.NoError(c, p.cmd.Start())
	c.Cleanup(p.kill)
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	c.living[place] = p
}

// kill sends SIGKILL and waits for the end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it fails if the process has ended
	<-p.done
}

// stop has the process stand still for a while.
func (p *process) stop(r *rand.Rand) {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	pause(r, faultPause)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
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
