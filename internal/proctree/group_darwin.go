package proctree

import "syscall"

const (
	waitNoWait = 0x20
	maxRSSUnit = 1
)

// peopled reports that the group has a living process. Zombies cannot be signalled here.
func peopled(group int) bool { return syscall.Kill(-group, 0) == nil }
