//go:build !linux

package migrating_test

import "syscall"

// newSession is for Linux, where the tests of commands run.
var newSession *syscall.SysProcAttr
