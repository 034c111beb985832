//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// An account is the user who runs the server, because PostgreSQL refuses to run as root. Nil is the user who runs the
// test.
type account struct{ uid, gid int }

// unprivileged returns the account to use if the test runs as root, and nil otherwise.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(u.Uid)
		gid, errGID := strconv.Atoi(u.Gid)
		if errUID == nil && errGID == nil {
			return &account{uid, gid}, nil
		}
	}
	return nil, fmt.Errorf("%w: root may not run it, and there is neither a user postgres nor a user nobody",
		ErrNotInstalled)
}

// own makes the account the owner of a folder.
func (a *account) own(folder string) error {
	if a == nil {
		return nil
	}
	return os.Chown(folder, a.uid, a.gid)
}

// attributes makes a command run as the account and, on Linux, end with the test binary.
func (a *account) attributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true} // an interrupt from the keyboard goes to the test only
	endWithParent(attributes)
	if a != nil {
		uid, gid := uint32(a.uid), uint32(a.gid) //nolint:gosec // both come from the system
		attributes.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return attributes
}
