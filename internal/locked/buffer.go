// Package locked has a buffer that tests read while other goroutines write it. It is no pipe: a read waits for nothing.
package locked

import (
	"bytes"
	"sync"
)

// A Buffer keeps what a log or a program prints. Its methods may be called from several goroutines at once. The zero
// value is empty.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

// String returns what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
