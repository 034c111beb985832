//go:build unix

package main

import (
	"runtime"
	"syscall"
)

// ways are how a child is started that wants to get away.
var ways = map[string]*syscall.SysProcAttr{
	"plainly":     nil,
	"as a daemon": {Setsid: true},
}

// own are the checks that only this system has.
func own() []check { return nil }

// system is the system's name.
func system() string { return runtime.GOOS }
