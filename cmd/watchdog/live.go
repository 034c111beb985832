package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// clearLine has a terminal clear the line that the cursor is in.
const clearLine = "\r\x1b[K"

// showTime shows on the terminal, once a second, how long the command has been running, until stop is called. It does
// so only where nothing of the command is disturbed: while its output goes elsewhere, and this program is in the
// foreground. What is told meanwhile comes above it. A limit of 0 is none.
func (p Program) showTime(limit time.Duration, told <-chan string) (stop func()) {
	if isTerminal(p.Stdout) || isTerminal(p.Stderr) || !isTerminal(p.Stdin) {
		return func() {}
	}
	terminal, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		return func() {}
	}
	done := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() { showTimeOn(terminal, limit, told, done) })
	return func() {
		close(done)
		shown.Wait()
		_ = terminal.Close()
	}
}

func showTimeOn(terminal *os.File, limit time.Duration, told <-chan string, done <-chan struct{}) {
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			show(terminal, "")
			return
		case text := <-told:
			show(terminal, "watchdog: "+text+"\n")
		case <-tick.C:
			show(terminal, timeLine(time.Since(began), limit))
		}
	}
}

// show replaces the line, unless another program has the terminal. An error has nowhere to go.
func show(terminal *os.File, text string) {
	if inForeground(terminal) {
		_, _ = terminal.WriteString(clearLine + styleOf(terminal).dim(text))
	}
}

func timeLine(elapsed, limit time.Duration) string {
	text := "watchdog: running for " + elapsed.Truncate(time.Second).String()
	if limit > 0 {
		text += fmt.Sprintf(", at most %v more", max(limit-elapsed, 0).Round(time.Second))
	}
	return text
}
