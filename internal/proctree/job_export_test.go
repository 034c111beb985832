package proctree

import (
	"errors"
	"sync"
)

// KilledCode returns the exit status of a killed process, as package os returns it: it is negative if an int has 32 bits.
func KilledCode() int {
	code := uint32(killedStatus)
	return int(code)
}

// A FakeJob is a job without processes of the system. Its fields say what it does and what it was told; the methods of a
// tree may be called concurrently, so [FakeJob.Do] guards them.
type FakeJob struct {
	mu                        sync.Mutex
	Alive                     []int
	Immortal                  bool // a terminate ends nothing
	NoConsole                 bool // a break fails
	HostsGroup                bool // the first process leads no group of its own
	CountErr, KeepErr         error
	Breaks, Terminated        int
	Kept, Closed, UsedAfterIt bool
}

// Do calls f while nothing uses the job.
func (j *FakeJob) Do(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f()
}

func (j *FakeJob) use() {
	if j.Closed {
		j.UsedAfterIt = true
	}
}

func (j *FakeJob) active() (n int, err error) {
	j.Do(func() { j.use(); n, err = len(j.Alive), j.CountErr })
	return n, err
}

func (j *FakeJob) processes() (pids []int, err error) {
	j.Do(func() { j.use(); pids = append(pids, j.Alive...) })
	return pids, nil
}

func (j *FakeJob) interrupt() (err error) {
	j.Do(func() {
		j.use()
		if j.NoConsole {
			err = errors.New("no console")
			return
		}
		j.Breaks++
	})
	return err
}

func (j *FakeJob) terminate() error {
	j.Do(func() {
		j.use()
		j.Terminated++
		if !j.Immortal {
			j.Alive = nil
		}
	})
	return nil
}

func (j *FakeJob) keep() (err error) {
	j.Do(func() { j.use(); j.Kept, err = j.KeepErr == nil, j.KeepErr })
	return err
}

func (j *FakeJob) close() { j.Do(func() { j.use(); j.Closed = true }) }

// NewJobTree returns a tree that is the job and whose first process has ended when wait returns.
func NewJobTree(j *FakeJob, ownGroup bool, wait func() (Status, error)) *Tree {
	b := newJobBackend(1, j, ownGroup)
	go b.watch(wait)
	return b.tree
}
