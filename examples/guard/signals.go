package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/term"
)

// A signalError is the cause of the context when the guard gets a signal.
type signalError struct{ signal syscall.Signal }

func (e signalError) Error() string { return "the guard got " + signalName(e.signal) }

// signalled returns a context that ends at the first signal to the guard, and a function that stops listening. The
// second signal kills the guard. A signal that the guard was started to ignore stays ignored, for the command too.
func signalled(stdin *os.File) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	received := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(received, sig)
		}
	}
	go func() {
		if sig := firstSignal(ctx, received, sharesTerminal(stdin)); sig != 0 {
			signal.Stop(received)
			cancel(signalError{sig})
		}
	}()
	return ctx, func() {
		signal.Stop(received)
		cancel(nil)
	}
}

// forwarded returns the signals that the guard passes on: Ctrl-\, with which many programs say what they do. On a
// terminal that the guard shares with the command there are none: the command gets it itself.
func forwarded(stdin *os.File) (<-chan os.Signal, func()) {
	received, none := make(chan os.Signal, 1), make(chan os.Signal)
	if signal.Ignored(syscall.SIGQUIT) {
		return none, func() {}
	}
	signal.Notify(received, syscall.SIGQUIT) // without it, the guard would end
	stop := func() { signal.Stop(received) }
	if sharesTerminal(stdin) {
		return none, stop
	}
	return received, stop
}

// firstSignal returns the first signal for the guard, 0 when the context has ended. On a terminal that the guard
// shares with the command it skips interrupts: the command gets them itself.
func firstSignal(ctx context.Context, received <-chan os.Signal, shared bool) syscall.Signal {
	for {
		select {
		case <-ctx.Done():
			return 0
		case sig := <-received:
			if sig != syscall.SIGINT || !shared {
				return sig.(syscall.Signal)
			}
		}
	}
}

// sharesTerminal reports whether the command is in the guard's process group, so that a terminal interrupts both; see
// [stall.Run].
func sharesTerminal(stdin *os.File) bool {
	return runtime.GOOS == "linux" && term.IsTerminal(int(stdin.Fd()))
}

// signalName returns the usual name of the signal.
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
	case syscall.SIGQUIT:
		return "SIGQUIT"
	}
	return sig.String()
}
