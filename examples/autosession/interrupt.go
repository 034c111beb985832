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

// signals are what ends a session from outside, and how it is called in its events.
var signals = map[os.Signal]string{os.Interrupt: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP"}

// An ear hears the signals of this process.
type ear struct {
	heard   chan os.Signal
	over    chan struct{}
	stop    func()
	waiting sync.WaitGroup
}

// hear starts to listen. A signal that comes before a watchdog is there is kept for it; one that this process was started to ignore, as nohup
// does, stays ignored.
func hear() *ear {
	e := &ear{heard: make(chan os.Signal, 1), over: make(chan struct{})}
	for s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(e.heard, s)
		}
	}
	e.stop = sync.OnceFunc(func() {
		signal.Stop(e.heard)
		close(e.over)
		e.waiting.Wait()
	})
	return e
}

// interrupt ends the run at the first signal, until stop is called, which waits for that to be recorded. The next signal
// ends the process, as if nothing had listened.
func (e *ear) interrupt(wd *watchdog.Watchdog, show *progress.Display) {
	e.waiting.Go(func() {
		select {
		case <-e.over:
		case s := <-e.heard:
			signal.Stop(e.heard)
			if err := wd.Interrupt(signals[s]); err != nil && !errors.Is(err, watchdog.ErrEnded) {
				show.Say("%v", err)
			}
		}
	})
}
