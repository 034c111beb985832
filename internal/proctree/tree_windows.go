package proctree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// StartContext starts the command in a job object, unless ctx has ended. The command gets a console process group of
// its own unless SameGroup is set. If the program cannot be started, StartContext returns the system's error, as
// [os.StartProcess] does.
func StartContext(ctx context.Context, c Command) (*Tree, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the command was not started: %w", context.Cause(ctx))
	}
	j, err := newJob()
	if err != nil {
		return nil, err
	}
	attr, ownGroup, resume := jobAttr(c.Attr, c.SameGroup)
	env := append([]string{}, c.Env...) // a nil Env would be the host's
	p, err := os.StartProcess(c.Path, c.Args, &os.ProcAttr{Dir: c.Dir, Env: env, Files: c.Files, Sys: attr})
	if err != nil {
		j.close()
		return nil, err
	}
	if err := j.add(p.Pid, resume); err != nil {
		_ = p.Kill() // it has not begun
		_, _ = p.Wait()
		j.close()
		return nil, err
	}
	b := newJobBackend(p.Pid, j, ownGroup)
	go b.watch(func() (Status, error) { return waitProcess(p) })
	return b.tree, nil
}

func waitProcess(p *os.Process) (Status, error) {
	state, err := p.Wait()
	if err != nil {
		return unknown, err
	}
	return Status{ExitCode: state.ExitCode(), User: state.UserTime(), System: state.SystemTime(), State: state}, nil
}

// Flags of CreateProcess that package syscall lacks.
const (
	createSuspended  = 0x4
	detachedProcess  = 0x8
	createNewConsole = 0x10
)

// jobAttr returns a copy of the attributes with what a job needs: the process must not start another one before it is
// in the job. It also returns whether a console break of the host reaches the process alone, and whether to resume it:
// not if the caller wants it suspended.
func jobAttr(given *syscall.SysProcAttr, sameGroup bool) (attr *syscall.SysProcAttr, ownGroup, resume bool) {
	attr = &syscall.SysProcAttr{}
	if given != nil {
		*attr = *given
	}
	resume = attr.CreationFlags&createSuspended == 0
	attr.CreationFlags |= createSuspended
	if !sameGroup {
		attr.CreationFlags |= syscall.CREATE_NEW_PROCESS_GROUP
	}
	hostsConsole := attr.CreationFlags&(detachedProcess|createNewConsole) == 0
	ownGroup = hostsConsole && attr.CreationFlags&syscall.CREATE_NEW_PROCESS_GROUP != 0
	return attr, ownGroup, resume
}

// add puts a new, suspended process into the job.
//
// Rejected: to find the process's thread with CreateToolhelp32Snapshot for ResumeThread, because that lists all threads
// of the machine, and NtResumeProcess does the same for a process that has one thread. PROC_THREAD_ATTRIBUTE_JOB_LIST
// would need no suspension, but package os cannot pass it.
func (j *windowsJob) add(pid int, resume bool) error {
	const terminate, setQuota, suspendResume = 0x1, 0x100, 0x800
	// The PID is not reused: p holds a handle until it has waited, and this one is held until the tree is gone.
	process, err := syscall.OpenProcess(terminate|setQuota|suspendResume, false, uint32(pid)) //nolint:gosec // a DWORD
	if err != nil {
		return fmt.Errorf("open the new process %d: %w", pid, err)
	}
	j.pid, j.process = pid, process
	switch err := j.assign(process); {
	case errors.Is(err, syscall.ERROR_ACCESS_DENIED):
		return fmt.Errorf("put the command into a job object: %w; the host is in a job that does not allow another one "+
			"inside: that needs Windows 8 or newer, and a job without limits of its user interface", err)
	case err != nil:
		return fmt.Errorf("put the command into a job object: %w", err)
	}
	if !resume {
		return nil
	}
	if err := resumeProcess(process); err != nil {
		return fmt.Errorf("resume the new process %d: %w", pid, err)
	}
	return nil
}
