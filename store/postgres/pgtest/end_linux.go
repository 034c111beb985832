package pgtest

import "syscall"

// endWithParent makes the server stop at once when the test binary is killed.
func endWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGQUIT }
