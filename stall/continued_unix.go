//go:build unix

package stall

import (
	"os"
	"os/signal"
	"syscall"
)

// continued returns a channel that receives when this process was stopped and goes on, as after Ctrl-Z and fg, and a
// function that closes it. Nothing else about SIGCONT changes.
func continued() (<-chan os.Signal, func()) {
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGCONT)
	return received, func() { signal.Stop(received) }
}
