// Package tty lends the terminal of this process to a command, and takes it back.
//
// A command whose output nobody reads gets the terminal itself: [Save] notes how it is set, and [Saved.Restore] sets it
// back after a command that had no time to. One whose output is read gets a pseudo-terminal, a [Terminal], which has
// the size and the modes of the real one. What is typed passes through it, so that Ctrl-C is what the command makes of
// it.
//
// The package starts no process, and knows nothing about output or silence.
package tty

import "syscall"

// A Tree is the processes that have a [Terminal].
type Tree interface {
	PID() int // of the first
	Signal(sig syscall.Signal) (int, error)
}
