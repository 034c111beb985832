//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"errors"
	"runtime"
	"slices"
)

// An Origin is what the thread that starts a command may do. Other commands are started later on behalf of the first
// one, by whatever thread the Go runtime has at hand: it bounds what they get. See [Command].For.
type Origin struct {
	caller *caller
	shared bool // other threads of the host may do the same
}

var (
	errOwnThread = errors.New("the command that it is for was started by a thread with privileges of its own, which " +
		"other threads of the host do not have; give them to the whole process, " +
		"or start the command from a thread like all others")
	errGained = errors.New("the host may do more now than when it started the command that it is for; " +
		"start the command with the users, groups and capabilities that it is to keep")
)

// ReadOrigin reads what the calling thread may do. It wraps [ErrGuard] if that cannot be read.
func ReadOrigin() (*Origin, error) {
	own, err := readThread()
	if err != nil {
		return nil, err
	}
	// A goroutine of its own runs on a thread that nobody has locked.
	other, read := (*caller)(nil), make(chan error)
	go func() {
		var err error
		other, err = readThread()
		read <- err
	}()
	if err := <-read; err != nil {
		return nil, err
	}
	return &Origin{caller: own, shared: own.profile == other.profile}, nil
}

func readThread() (*caller, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return readCaller()
}

// check returns an error if the calling thread may do more than the origin. Profiles have no order. But if the whole
// process had the origin's, a later one came from it, and can have more only by a user, a group or a capability.
func (o *Origin) check(c *caller) error {
	switch {
	case o == nil || c.profile == o.caller.profile:
		return nil
	case !o.shared:
		return errOwnThread
	case gained(o.caller.status, c.status):
		return errGained
	default:
		return nil
	}
}

// gained reports whether a command can do what one that was started before could not. A saved user ID is not passed on
// to a command, but a host can return to it.
func gained(before, now []byte) bool {
	if mostCapabilities(now)&^mostCapabilities(before) != 0 {
		return true
	}
	if slices.Contains(realAndEffective(before, "Uid"), "0") {
		return false
	}
	groups, _ := statusField(before, "Groups")
	groupsNow, _ := statusField(now, "Groups")
	return groups != groupsNow ||
		!slices.Equal(realAndEffective(before, "Uid"), realAndEffective(now, "Uid")) ||
		!slices.Equal(realAndEffective(before, "Gid"), realAndEffective(now, "Gid"))
}
