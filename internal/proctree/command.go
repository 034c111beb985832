package proctree

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/internal/tty"
)

var (
	// ErrUnsupported is wrapped by [Start] if Command.Attr or Command.Files ask for something that a tree cannot have.
	ErrUnsupported = errors.New("not supported for a guarded command")
	// ErrGuard is wrapped by [Start] if no guard process can be started or none answers, and by [Tree.Err] if the guard
	// died.
	ErrGuard = errors.New("guard process")
	// ErrEnded is returned by [Tree.Signal] if nothing of the tree is left.
	ErrEnded = errors.New("process tree has ended")
)

// A MissedError is returned by [Tree.Signal] if it could not signal some of the living processes, for example because
// they run as another user, or because Windows has nothing like the signal.
type MissedError struct {
	// Processes is how many there are.
	Processes int
}

func (e *MissedError) Error() string {
	why := "another user may own them"
	if runtime.GOOS == "windows" {
		why = "Windows has nothing for them but a kill"
	}
	return fmt.Sprintf("%d living processes could not be signalled: %s", e.Processes, why)
}

// A Command describes the command to start.
type Command struct {
	// Path is the program's file. Args are its arguments, the program's name first. Env is its whole environment; nil
	// means empty.
	Path      string
	Args, Env []string
	// Dir is its working directory; empty means the host's.
	Dir string
	// Files are its descriptors, starting at 0. A nil entry is a closed descriptor.
	Files []*os.File
	// Attr holds further attributes; nil means none. [Start] refuses those that the tree needs for itself.
	Attr *syscall.SysProcAttr
	// SameGroup keeps the command in the host's process group: a command that reads from a terminal needs that.
	SameGroup bool
	// Terminal is a terminal of the host, nil for none, and TerminalModes how it is set for the command. On Linux, if the
	// host dies, it is set as it was before.
	Terminal      *os.File
	TerminalModes tty.Change
	// Releases says that the caller is going to [Tree.Release] what the command leaves behind when it exits by itself. On
	// Linux it protects a process that nothing ties to the command any more: the tree is gone before its release then.
	Releases bool
	// For is the origin of the command on whose behalf this one is started; nil means none. On Linux, [StartContext] then
	// returns an error if the calling thread may do more than the origin.
	For *Origin
}

// A Status says how the first process of a tree ended, and what it used.
type Status struct {
	// ExitCode is its exit status, -1 if a signal ended it or if the status is unknown.
	ExitCode int
	// Signal is the signal that ended it, 0 if none did.
	Signal syscall.Signal
	// User and System are the CPU times of the process and the children it waited for. MaxRSS is the largest resident
	// set of one of them, in bytes. All are 0 if unknown.
	User, System time.Duration
	MaxRSS       int64
	// State is what package os says about the process. It is nil if the status is unknown, or if it cannot be made: see
	// newState.
	State *os.ProcessState
}

// unknown is the status of a process that has not exited, or whose exit was not seen.
var unknown = Status{ExitCode: -1}
