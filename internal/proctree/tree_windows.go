package proctree

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// Start starts the command. Nothing that it starts is known, and SameGroup does nothing. A program that cannot be started is an error of the system, as from
// [os.StartProcess].
func Start(c Command) (*Tree, error) {
	env := append([]string{}, c.Env...) // nil would be the host's
	p, err := os.StartProcess(c.Path, c.Args, &os.ProcAttr{Dir: c.Dir, Env: env, Files: c.Files, Sys: c.Attr})
	if err != nil {
		return nil, err
	}
	l := &processLink{process: p, tree: newTree(p.Pid)}
	l.tree.link = l
	go l.watch()
	return l.tree, nil
}

// A processLink is a process alone.
type processLink struct {
	process *os.Process
	tree    *Tree
	mu      sync.Mutex // held to end it
}

func (l *processLink) watch() {
	state, err := l.process.Wait()
	if err != nil {
		l.tree.finish(fmt.Errorf("wait for process %d: %w", l.tree.pid, err))
		return
	}
	l.tree.ended(Status{ExitCode: state.ExitCode(), User: state.UserTime(), System: state.SystemTime()})
	l.tree.finish(nil)
}

// signal ends the process, whatever the signal.
func (l *processLink) signal(syscall.Signal) (int, error) {
	if err := l.kill(); err != nil {
		return 0, err
	}
	return 1, nil
}

func (l *processLink) kill() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.tree.exited:
		return nil
	default:
	}
	if err := l.process.Kill(); err != nil {
		return fmt.Errorf("end process %d: %w", l.tree.pid, err)
	}
	return nil
}

func (l *processLink) release() error { return nil }

func (l *processLink) survivors() []int { return nil }
