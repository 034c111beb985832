//go:build !unix

package pgtest

import (
	"fmt"
	"syscall"
)

type account struct{}

func unprivileged() (*account, error) {
	return nil, fmt.Errorf("%w: this system has no Unix sockets for the server", ErrNotInstalled)
}

func (*account) own(string) error { return nil }

func (*account) attributes() *syscall.SysProcAttr { return nil }
