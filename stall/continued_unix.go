//go:build unix

package stall

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// listen has package signal listen to SIGCONT for good, which changes nothing about the signal. Otherwise the runtime
// would switch to another thread and back for the first channel and for the last one: 50 µs of each command.
var listen = sync.OnceFunc(func() { signal.Notify(make(chan os.Signal, 1), syscall.SIGCONT) })

// continued returns a channel that receives when this process was stopped and goes on, as after Ctrl-Z and fg, and a
// function that closes it. Nothing else about SIGCONT changes.
func continued() (<-chan os.Signal, func()) {
	listen()
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGCONT)
	return received, func() { signal.Stop(received) }
}
