//go:build unix && !linux

package pgtest

import "syscall"

// endWithParent does nothing where the system cannot: a test binary that is killed leaves its server behind.
func endWithParent(*syscall.SysProcAttr) {}
