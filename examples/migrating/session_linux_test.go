package migrating_test

import "syscall"

// newSession takes a process out of its group.
var newSession = &syscall.SysProcAttr{Setsid: true}
