package main

import (
	"io"
	"sync"
)

// say prints a line.
type say func(format string, args ...any)

// lines lets the loop, its watchdog's log and its subscriber write to one writer.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(line)
}
