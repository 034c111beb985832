package proctree

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// The errors of a tree.
var (
	// ErrUnsupported is wrapped by what [Start] returns for attributes that cannot be had together with a tree.
	ErrUnsupported = errors.New("not supported for a guarded command")
	// ErrGuard is wrapped by what Start returns where the guard process cannot be started, and by [Tree.Err] where it died.
	ErrGuard = errors.New("guard process")
	// ErrEnded is returned by [Tree.Signal] when nothing of the tree is left.
	ErrEnded = errors.New("process tree has ended")
)

// A Command is what is to be started.
type Command struct {
	// Path is the program's file; Args are its arguments, the name it is called by first. Env is all of its environment.
	Path      string
	Args, Env []string
	// Dir is its folder; empty means the host's.
	Dir string
	// Files are its descriptors, from 0. A nil one is closed.
	Files []*os.File
	// Attr are further attributes, nil for none. Those that the tree needs for itself cannot be set: see [Start].
	Attr *syscall.SysProcAttr
	// SameGroup keeps the command in the host's process group, as a terminal needs it for a command that reads from it.
	SameGroup bool
}

// A Status is how the first process of a tree ended, and what it used.
type Status struct {
	// ExitCode is its exit status, -1 where a signal ended it or it is not known.
	ExitCode int
	// Signal is the signal that ended it, 0 where none did.
	Signal syscall.Signal
	// User and System are the processor times of it and of those it waited for, MaxRSS their largest memory in bytes.
	User, System time.Duration
	MaxRSS       int64
}

// unknown is the status of a process of which nothing was heard.
var unknown = Status{ExitCode: -1}
