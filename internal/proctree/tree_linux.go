//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// maxFiles is how many files a command can get: one message carries at most 253 descriptors.
const maxFiles = 250

// StartContext starts the command and begins to watch its tree. It waits at most ten seconds for the guard, and not
// longer than ctx lasts: it then wraps the cause of ctx. The command lives on when ctx ends after that.
//
// It wraps [ErrUnsupported] if there are more than 250 Files, or if Attr sets Pgid, Foreground, Ptrace, PidFD or
// UseCgroupFD, or Chroot without a Dir. It replaces Attr.Pdeathsig. If the program cannot be started, Start returns the
// system's error, as [os.StartProcess] does. If the guard cannot be started, or if /proc does not show the command's
// processes, Start wraps [ErrGuard].
func StartContext(ctx context.Context, c Command) (*Tree, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the command was not started: %w", context.Cause(ctx))
	}
	req := c.request()
	files, err := c.descriptors(req)
	if err != nil {
		return nil, err
	}
	tree, err := theGuards.startCommand(ctx, req, files)
	if req.Dir == "" {
		_ = syscall.Close(files[0])
	}
	runtime.KeepAlive(c)
	return tree, err
}

func (c Command) check() error {
	if len(c.Files) > maxFiles {
		return fmt.Errorf("%w: %d files; at most %d can be given", ErrUnsupported, len(c.Files), maxFiles)
	}
	hasNUL := func(s string) bool { return strings.IndexByte(s, 0) >= 0 }
	if hasNUL(c.Path+c.Dir) || slices.ContainsFunc(c.Args, hasNUL) || slices.ContainsFunc(c.Env, hasNUL) {
		return &os.PathError{Op: "fork/exec", Path: c.Path, Err: syscall.EINVAL}
	}
	if c.Attr != nil && c.Attr.Chroot != "" && c.Dir == "" {
		return fmt.Errorf("%w: SysProcAttr.Chroot without a Dir; set Dir to a folder below the new root, such as /",
			ErrUnsupported)
	}
	return checkAttr(c.Attr)
}

func checkAttr(attr *syscall.SysProcAttr) error {
	if attr == nil {
		return nil
	}
	for field, set := range map[string]bool{
		"Pgid":        attr.Pgid != 0,
		"Foreground":  attr.Foreground,
		"Ptrace":      attr.Ptrace,
		"PidFD":       attr.PidFD != nil,
		"UseCgroupFD": attr.UseCgroupFD,
	} {
		if set {
			return fmt.Errorf("%w: SysProcAttr.%s is set; the guard sets the command's process group, terminal and descriptor",
				ErrUnsupported, field)
		}
	}
	return nil
}

func (c Command) request() *request {
	req := &request{
		Path: c.Path, Args: c.Args, Env: c.Env, SameGroup: c.SameGroup, Group: syscall.Getpgrp(),
		Releases: c.Releases, origin: c.For,
	}
	if c.Attr != nil {
		attr := *c.Attr
		req.Root, attr.Chroot = attr.Chroot, ""
		req.Attr = &attr
	}
	if req.Root != "" {
		req.Dir = c.Dir
	}
	if c.Terminal != nil {
		req.Terminal = &c.TerminalModes
	}
	return req
}

func (c Command) descriptors(req *request) ([]int, error) {
	var files []int
	if req.Dir == "" {
		dir := cmp.Or(c.Dir, ".")
		fd, err := syscall.Open(dir, openPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "chdir", Path: dir, Err: err}
		}
		files = append(files, fd)
	}
	for _, f := range c.Files {
		fd := ^uintptr(0)
		if f != nil {
			fd = f.Fd()
		}
		closed := fd == ^uintptr(0)
		req.Closed = append(req.Closed, closed)
		if !closed {
			files = append(files, int(fd))
		}
	}
	if c.Terminal != nil {
		raw, err := c.Terminal.SyscallConn() // not Fd, which would have it block
		if err == nil {
			err = raw.Control(func(fd uintptr) { files = append(files, int(fd)) })
		}
		return files, err
	}
	return files, nil
}
