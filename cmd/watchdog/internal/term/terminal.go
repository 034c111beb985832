package term

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// The ways to mark text.
const (
	Bold = "1"
	Dim  = "2"
)

// Marked is text for a file. It is marked if the file is a terminal, and NO_COLOR is not set or empty.
func Marked(file *os.File, how, text string) string {
	if os.Getenv("NO_COLOR") != "" || text == "" || !heedsEscapes(file) {
		return text
	}
	return "\x1b[" + how + "m" + text + "\x1b[0m"
}

// heedsEscapes reports whether a file is a terminal that heeds escape sequences.
func heedsEscapes(file *os.File) bool {
	return file != nil && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
}

const clearLine = "\r\x1b[K"

// ShowTime shows on the terminal, once a second, how long a command has been running, until stop is called. It does
// so only where nothing of the command, which has the files, is disturbed: while its output goes elsewhere, and this
// program is in the foreground. A limit of 0 is none.
func ShowTime(stdin, stdout, stderr *os.File, limit time.Duration) (stop func()) {
	if heedsEscapes(stdout) || heedsEscapes(stderr) || !heedsEscapes(stdin) {
		return func() {}
	}
	terminal, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		return func() {}
	}
	done := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() { showTimeOn(terminal, limit, done) })
	return func() {
		close(done)
		shown.Wait()
		_ = terminal.Close()
	}
}

func showTimeOn(terminal *os.File, limit time.Duration, done <-chan struct{}) {
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			show(terminal, "")
			return
		case <-tick.C:
			text := "watchdog: running for " + time.Since(began).Truncate(time.Second).String()
			if limit > 0 {
				text += fmt.Sprintf(", at most %v more", max(limit-time.Since(began), 0).Round(time.Second))
			}
			show(terminal, text)
		}
	}
}

// show replaces the line, unless another program has the terminal. An error has nowhere to go.
func show(terminal *os.File, text string) {
	if inForeground(terminal) {
		_, _ = terminal.WriteString(clearLine + Marked(terminal, Dim, text))
	}
}
