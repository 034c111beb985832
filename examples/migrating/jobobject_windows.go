package migrating

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// grace is the time between the console break and the end of the job.
const grace = time.Second

//migrating:before

// A job is a Job Object, whose processes end when its handle is closed.
type job struct{ handle windows.Handle }

func newJob() (*job, error) {
	handle, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("create a job object: %w", err)
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(handle, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		_ = windows.CloseHandle(handle)
		return nil, fmt.Errorf("limit a job object: %w", err)
	}
	return &job{handle}, nil
}

// add puts a process into the job. What it started before is not in it.
func (j *job) add(pid int) error {
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(pid))
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer func() { _ = windows.CloseHandle(process) }()
	if err := windows.AssignProcessToJobObject(j.handle, process); err != nil {
		return fmt.Errorf("put process %d into a job object: %w", pid, err)
	}
	return nil
}

func (j *job) end() error   { return windows.TerminateJobObject(j.handle, 1) }
func (j *job) close() error { return windows.CloseHandle(j.handle) }

// A quietWriter ends a command that writes nothing for the limit.
type quietWriter struct {
	io.Writer
	mu    sync.Mutex // guards the timer
	timer *time.Timer
	limit time.Duration
}

// Write implements [io.Writer]. While nobody takes the output its timer stands still.
func (w *quietWriter) Write(p []byte) (int, error) {
	if w.timer == nil {
		return w.Writer.Write(p)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	n, err := w.Writer.Write(p)
	w.timer.Reset(w.limit)
	return n, err
}

// JobObjectBefore runs a command until it exits or prints nothing for too long.
func JobObjectBefore(ctx context.Context, limit time.Duration, out io.Writer, name string, args ...string) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	tree, err := newJob()
	if err != nil {
		return fmt.Errorf("guard a command: %w", err)
	}
	defer func() { _ = tree.close() }()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = tree.end
	cmd.WaitDelay = grace
	quiet := &quietWriter{Writer: out, limit: limit}
	if limit > 0 {
		quiet.timer = time.AfterFunc(limit, func() { end(fmt.Errorf("%w: %v", ErrSilent, limit)) })
		defer quiet.timer.Stop()
	}
	cmd.Stdout, cmd.Stderr = quiet, quiet
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a command: %w", err)
	}
	if err := tree.add(cmd.Process.Pid); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	if err := cmd.Wait(); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

//migrating:after

// JobObjectAfter runs a command until it exits or prints nothing for too long.
func JobObjectAfter(ctx context.Context, limit time.Duration, out io.Writer, name string, args ...string) error {
	cmd := exec.Command(name, args...) //nolint:noctx // stall.Run takes the context
	cmd.Stdout, cmd.Stderr = out, out
	graces := []stall.Step{{Signal: syscall.SIGTERM, Grace: grace}} // a console break, then the end of the job
	_, err := stall.Run(ctx, cmd, stall.Config{Step: "tool", Store: &watchdog.Memory{}, NoOutput: limit, Grace: graces})
	return err
}

//migrating:end
