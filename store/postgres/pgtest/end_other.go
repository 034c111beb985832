//go:build unix && !linux

package pgtest

import "syscall"

// endWithParent does nothing: on these systems a killed test binary leaves its server running.
func endWithParent(*syscall.SysProcAttr) {}
