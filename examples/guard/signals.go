package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/term"
)

// A signalError is the cause of a context that a signal to the guard ended.
type signalError struct{ signal syscall.Signal }

func (e signalError) Error() string { return "the guard got " + signalName(e.signal) }

// signalled returns a context that ends at the first signal that asks the guard to end, and what calls that off. The second ends the guard, as if nothing had listened. One that this process
// was started to ignore stays ignored, for the command too.
func signalled(stdin *os.File) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	heard := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(heard, sig)
		}
	}
	go func() {
		if sig := first(ctx, heard, sharesTerminal(stdin)); sig != 0 {
			signal.Stop(heard)
			cancel(signalError{sig})
		}
	}()
	return ctx, func() {
		signal.Stop(heard)
		cancel(nil)
	}
}

// first is the first signal that the guard heeds, 0 when the context has ended. Interrupts on a terminal that is shared with the command are the command's.
func first(ctx context.Context, heard <-chan os.Signal, shared bool) syscall.Signal {
	for {
		select {
		case <-ctx.Done():
			return 0
		case sig := <-heard:
			if sig != syscall.SIGINT || !shared {
				return sig.(syscall.Signal)
			}
		}
	}
}

// sharesTerminal reports that the command is in the guard's process group, see [stall.Run]: then a terminal interrupts both.
func sharesTerminal(stdin *os.File) bool {
	return runtime.GOOS == "linux" && term.IsTerminal(int(stdin.Fd()))
}

// signalName is the signal as people write it.
func signalName(sig syscall.Signal) string {
	switch sig {
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	case syscall.SIGKILL:
		return "SIGKILL"
	}
	return sig.String()
}
