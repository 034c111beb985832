package proctree

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// StartContext starts the command, unless ctx has ended. The tree does not know what the command starts, and SameGroup
// does nothing. If the program cannot be started, StartContext returns the system's error, as [os.StartProcess] does.
func StartContext(ctx context.Context, c Command) (*Tree, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the command was not started: %w", context.Cause(ctx))
	}
	env := append([]string{}, c.Env...) // a nil Env would be the host's
	p, err := os.StartProcess(c.Path, c.Args, &os.ProcAttr{Dir: c.Dir, Env: env, Files: c.Files, Sys: c.Attr})
	if err != nil {
		return nil, err
	}
	b := &processBackend{process: p, tree: newTree(p.Pid)}
	b.tree.backend = b
	go b.watch()
	return b.tree, nil
}

// A processBackend is a single process.
type processBackend struct {
	process *os.Process
	tree    *Tree
	mu      sync.Mutex // held while killing the process
}

func (b *processBackend) watch() {
	state, err := b.process.Wait()
	if err != nil {
		b.tree.finish(fmt.Errorf("wait for process %d: %w", b.tree.pid, err))
		return
	}
	b.tree.setExited(Status{ExitCode: state.ExitCode(), User: state.UserTime(), System: state.SystemTime()})
	b.tree.finish(nil)
}

// signal kills the process, whatever the signal.
func (b *processBackend) signal(syscall.Signal) (int, error) {
	if err := b.kill(); err != nil {
		return 0, err
	}
	return 1, nil
}

func (b *processBackend) kill() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.tree.exited:
		return nil
	default:
	}
	if err := b.process.Kill(); err != nil {
		return fmt.Errorf("end process %d: %w", b.tree.pid, err)
	}
	return nil
}

func (b *processBackend) release() error { return nil }

func (b *processBackend) survivors() []int { return nil }
