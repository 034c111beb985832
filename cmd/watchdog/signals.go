package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/signame"
	"github.com/seed62658d38/watchdog/internal/tty"
	"github.com/seed62658d38/watchdog/stall"
)

// A signalError is the cause of the context when this program gets a signal.
type signalError struct{ signal syscall.Signal }

func (e signalError) Error() string { return "interrupted by " + signalName(e.signal) }

// signals are what this program gets while a command runs.
type signals struct {
	// forwarded are those to pass on: Ctrl-\, with which many programs say what they do. On a terminal that the program
	// shares with the command there are none: the command gets it itself.
	forwarded <-chan os.Signal
	shared    func() bool // the terminal, with the command, now
	started   atomic.Bool // the command
	last      atomic.Int32
	came      chan struct{} // closed at the first signal
	stop      func()
}

// got returns the last signal that was to end the command, 0 for none. It waits a moment for the interrupt of a
// terminal that ended the command: on a busy machine that may get here after the command's end.
func (s *signals) got(result *stall.Result) syscall.Signal {
	if result != nil && result.Signal == syscall.SIGINT && s.shared() {
		select {
		case <-s.came:
		case <-time.After(repeatsWithin(syscall.SIGINT)):
		}
	}
	return syscall.Signal(s.last.Load())
}

func (s *signals) note(sig syscall.Signal) {
	if s.last.Swap(int32(sig)) == 0 {
		close(s.came)
	}
}

// receive returns a context that ends at the first signal. The second one kills this program. A signal that it was
// started to ignore stays ignored, for the command too.
func receive(ctx context.Context, terminal bool) (context.Context, *signals) {
	ctx, cancel := context.WithCancelCause(ctx)
	received := make(chan os.Signal, 8) // of one instant
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(received, sig)
		}
	}
	forwarded, stopForward := forward(terminal)
	stopped, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &signals{forwarded: forwarded, came: make(chan struct{})}
	s.shared = func() bool { return terminal && s.started.Load() && tty.InForeground() }
	s.stop = func() {
		signal.Stop(received)
		stopForward()
		stop()
		cancel(nil)
	}
	end := func(sig syscall.Signal) { cancel(signalError{sig}) }
	go s.heed(stopped, received, heard{shared: s.shared}, end, die)
	return ctx, s
}

// run runs the command. Before it is started, nobody but this program gets an interrupt of the terminal.
func (s *signals) run(ctx context.Context, cmd *exec.Cmd, cfg stall.Config) (*stall.Result, error) {
	c, err := stall.NewCommand(cmd, cfg)
	if err == nil {
		err = c.Start(handle.WithExecvp(ctx))
	}
	if err != nil {
		return nil, err
	}
	s.started.Store(true)
	return c.Wait()
}

// heed does what the signals mean until stopped ends.
func (s *signals) heed(
	stopped context.Context, received <-chan os.Signal, h heard, end, kill func(syscall.Signal),
) {
	for {
		select {
		case <-stopped.Done():
			return
		case got := <-received:
			sig := got.(syscall.Signal)
			switch h.hear(sig, time.Now()) {
			case noted:
				s.note(sig)
			case ends:
				s.note(sig)
				end(sig)
			case kills:
				kill(sig)
			}
		}
	}
}

// A meaning is what a signal is for this program to do.
type meaning int

const (
	repeats meaning = iota // nothing: it is the first one once more
	noted                  // nothing: the command gets it itself
	ends                   // end the command
	kills                  // end this program, and with it the command, at once
)

type heard struct {
	shared func() bool // the terminal, with the command: it gets interrupts itself
	first  syscall.Signal
	at     time.Time // of the first
}

// hear returns the meaning of a signal. GNU timeout sends its signal to its child and to the group of that, a closing
// terminal and its shell may both hang up, and some programs pass on what their group got, too: a repeat in the same
// instant is no second signal. A second Ctrl-C is a person, who is slower than any program.
func (h *heard) hear(sig syscall.Signal, now time.Time) meaning {
	switch {
	case h.first == 0 && sig == syscall.SIGINT && h.shared():
		return noted
	case h.first == 0:
		h.first, h.at = sig, now
		return ends
	case sig == h.first && now.Sub(h.at) <= repeatsWithin(sig):
		return repeats
	}
	return kills
}

// repeatsWithin is how long after a signal another of its kind is the same one.
func repeatsWithin(sig syscall.Signal) time.Duration {
	if sig == syscall.SIGINT {
		return 250 * time.Millisecond
	}
	return time.Second
}

// die ends this program by the signal, as if it were not caught.
func die(sig syscall.Signal) {
	signal.Reset(sig)
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(sig)
	}
	if err == nil {
		select {} // until it comes
	}
	os.Exit(exitSignalled + int(sig))
}

// forward returns the signals to pass on, and a function that stops listening.
func forward(terminal bool) (<-chan os.Signal, func()) {
	received, none := make(chan os.Signal, 1), make(chan os.Signal)
	if signal.Ignored(syscall.SIGQUIT) {
		return none, func() {}
	}
	signal.Notify(received, syscall.SIGQUIT) // without it, this program would end
	stop := func() { signal.Stop(received) }
	if terminal {
		return none, stop
	}
	return received, stop
}

// hasTerminal reports whether the output is the terminal, and a command can have one of its own.
func (p Program) hasTerminal() bool {
	if !tty.Supported || !tty.IsOwn(p.Stdout) {
		return false
	}
	output, command, err := tty.Pair()
	if err != nil { // such as without /dev/pts
		return false
	}
	return errors.Join(output.Close(), command.Close()) == nil
}

// sharesTerminal reports whether a terminal, if there is one, interrupts both this program and the command while they
// are in its foreground; see [stall.Config].TTY.
func (p Program) sharesTerminal(cfg *stall.Config) bool { return tty.Is(p.Stdin) || cfg.TTY }

// signalName is how an event and a last line name a signal: one that a person sends by its usual name, and one of a
// crash by what it means.
func signalName(sig syscall.Signal) string {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL, syscall.SIGQUIT:
		return signame.Name(sig)
	}
	return sig.String()
}
