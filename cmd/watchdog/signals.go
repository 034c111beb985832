package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"
)

// A signalError is the cause of the context when this program gets a signal.
type signalError struct{ signal syscall.Signal }

func (e signalError) Error() string { return "interrupted by " + signalName(e.signal) }

// signals are what this program gets while a command runs.
type signals struct {
	// forwarded are those to pass on: Ctrl-\, with which many programs say what they do. On a terminal that the program
	// shares with the command there are none: the command gets it itself.
	forwarded <-chan os.Signal
	last      atomic.Int32
	stop      func()
}

// got returns the last signal that was to end the command, 0 for none.
func (s *signals) got() syscall.Signal { return syscall.Signal(s.last.Load()) }

// receive returns a context that ends at the first signal. The second one kills this program. A signal that it was
// started to ignore stays ignored, for the command too.
func receive(ctx context.Context, stdin *os.File) (context.Context, *signals) {
	ctx, cancel := context.WithCancelCause(ctx)
	received := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(received, sig)
		}
	}
	forwarded, stopForward := forward(stdin)
	s := &signals{forwarded: forwarded}
	s.stop = func() {
		signal.Stop(received)
		stopForward()
		cancel(nil)
	}
	go func() {
		if sig := s.first(ctx, received, sharesTerminal(stdin)); sig != 0 {
			signal.Stop(received)
			cancel(signalError{sig})
		}
	}()
	return ctx, s
}

// forward returns the signals to pass on, and a function that stops listening.
func forward(stdin *os.File) (<-chan os.Signal, func()) {
	received, none := make(chan os.Signal, 1), make(chan os.Signal)
	if signal.Ignored(syscall.SIGQUIT) {
		return none, func() {}
	}
	signal.Notify(received, syscall.SIGQUIT) // without it, this program would end
	stop := func() { signal.Stop(received) }
	if sharesTerminal(stdin) {
		return none, stop
	}
	return received, stop
}

// first returns the first signal for this program, 0 when the context has ended. On a terminal that it shares with the
// command it only notes interrupts: the command gets them itself.
func (s *signals) first(ctx context.Context, received <-chan os.Signal, shared bool) syscall.Signal {
	for {
		select {
		case <-ctx.Done():
			return 0
		case got := <-received:
			sig := got.(syscall.Signal)
			s.last.Store(int32(sig))
			if sig != syscall.SIGINT || !shared {
				return sig
			}
		}
	}
}

// sharesTerminal reports whether the command is in the process group of this program, so that a terminal interrupts
// both; see [stall.Run].
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
