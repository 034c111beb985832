//go:build linux

package soak_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// patience bounds every wait for a child and for the database.
const patience = time.Minute

// A process is a child of the test, as the parent knows it.
type process struct {
	name  string
	cmd   *exec.Cmd
	input io.WriteCloser
	book  journalReader
	done  chan struct{} // closed when it has ended and was waited for
	err   error         // of Wait

	mu     sync.Mutex
	away   []span        // it was stopped, or cut off
	late   []span        // it could write, and may not have heard
	stray  []span        // what it wrote was lost
	killed time.Duration // or has ended; 0 if it lives
}

// spawn starts a child, which cannot outlive the test. The caller has to end it.
func spawn(folder string, j job) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	j.Journal = filepath.Join(folder, j.Name+".journal")
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(j.Journal); err != nil { // of another soak
		return nil, err
	}
	log, err := os.Create(filepath.Join(folder, j.Name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{name: j.Name, cmd: exec.Command(self), book: journalReader{path: j.Journal}, done: make(chan struct{})}
	// Without GORACE each child would exit a second late.
	p.cmd.Env = append(os.Environ(), asChild+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr, p.cmd.Stdout = log, log
	// SIGKILL, because a process that is stopped does nothing else.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it fails if the process has ended

// kill sends SIGKILL and waits for the end.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
	p.noteEnd()
}

func (p *process) noteEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed == 0 {
		p.killed = sinceBoot()
	}
}

// note adds a stretch to some of those that are known of the process.
func (p *process) note(known *[]span, s span) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*known = append(*known, s)
}

// finish has a host let the runs end that end by themselves.
func (p *process) finish() error {
	_, err := p.input.Write([]byte("\n"))
	return err
}

// leave has the process close all and exit.
func (p *process) leave() error {
	_ = p.input.Close() // it fails if the process has ended
	select {
	case <-p.done:
		p.noteEnd()
		if p.err != nil {
			return fmt.Errorf("%s: %w", p.name, p.err)
		}
		return nil
	case <-time.After(patience):
		p.kill()
		return errors.New(p.name + " does not end")
	}
}

// record is what is known of the process up to now.
func (p *process) record() (processRecord, error) {
	entries, err := p.book.read()
	p.mu.Lock()
	defer p.mu.Unlock()
	return processRecord{
		name: p.name, entries: entries, away: slices.Clone(p.away), late: slices.Clone(p.late),
		stray: slices.Clone(p.stray), killed: p.killed,
	}, err
}
