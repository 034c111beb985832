package proctree

import "syscall"

const (
	waitNoWait = 0x20
	maxRSSUnit = 1
)

// groupAlive reports whether the group has a living process. On Darwin, kill fails for a group of zombies.
func groupAlive(group int) bool { return syscall.Kill(-group, 0) == nil }
