package probe

import (
	"bytes"
	"sync"
)

// A Capture is a writer that keeps the first MaxOutput+1 bytes and drops the rest: enough for [Parse] to read the
// output, or to see that it is too long. The zero value is ready to use. A Capture is safe for concurrent use and
// must not be copied.
type Capture struct {
	mu   sync.Mutex
	kept []byte
}

// Write keeps as much of text as there is room for. It never blocks and never fails.
func (c *Capture) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	room := MaxOutput + 1 - len(c.kept)
	c.kept = append(c.kept, text[:min(room, len(text))]...)
	return len(text), nil
}

// Bytes returns a copy of what is kept.
func (c *Capture) Bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.kept)
}

// TooLong reports whether more than MaxOutput bytes were written.
func (c *Capture) TooLong() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.kept) > MaxOutput
}
