package main

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/progress"
)

// signals are the signals that end a session, and their names in its events.
var signals = map[os.Signal]string{os.Interrupt: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP"}

// A signalListener receives the signals of this process.
type signalListener struct {
	received chan os.Signal
	stopped  chan struct{}
	stop     func()
	waiting  sync.WaitGroup
}

// listenForSignals starts to listen. It keeps a signal that comes before there is a watchdog. A signal that this
// process was started to ignore, as with nohup, stays ignored.
func listenForSignals() *signalListener {
	e := &signalListener{received: make(chan os.Signal, 1), stopped: make(chan struct{})}
	for s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(e.received, s)
		}
	}
	e.stop = sync.OnceFunc(func() {
		signal.Stop(e.received)
		close(e.stopped)
		e.waiting.Wait()
	})
	return e
}

// interrupt ends the run at the first signal. Calling stop ends the listening and waits until the interrupt is
// recorded. A second signal kills the process.
func (e *signalListener) interrupt(wd *watchdog.Watchdog, show *progress.Display) {
	e.waiting.Go(func() {
		select {
		case <-e.stopped:
		case s := <-e.received:
			signal.Stop(e.received)
			if err := wd.Interrupt(signals[s]); err != nil && !errors.Is(err, watchdog.ErrEnded) {
				show.Say("%v", err)
			}
		}
	})
}
