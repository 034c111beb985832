//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// An account is who runs the server, which refuses to be run by root. Nil is whoever runs the test.
type account struct{ uid, gid int }

// unprivileged returns the account to take for root.
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
	return nil, fmt.Errorf("%w: root may not run it, and there is neither a user postgres nor nobody to do so", ErrNotInstalled)
}

// own gives a folder to the account.
func (a *account) own(folder string) error {
	if a == nil {
		return nil
	}
	return os.Chown(folder, a.uid, a.gid)
}

// attributes has a command run by the account and, where the system can do that, end with the test binary.
func (a *account) attributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true} // an interrupt from the keyboard is the test's
	endWithParent(attributes)
	if a != nil {
		attributes.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)} //nolint:gosec // as the system has them
	}
	return attributes
}
