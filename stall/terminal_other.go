//go:build !linux

package stall

import (
	"io"
	"os/exec"
)

// isTerminal always returns false here. A command that reads from a terminal is therefore stopped by it.
func isTerminal(io.Reader) bool { return false }

// A terminalModes is nothing here: a terminal stays as a command that was ended has left it.
type terminalModes struct{}

func saveTerminals(*exec.Cmd) []terminalModes { return nil }

func (*terminalModes) restore() {}
