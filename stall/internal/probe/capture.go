package probe

import (
	"bytes"
	"sync"
)

// A Capture keeps the beginning of what is written to it: enough for [Parse] to read it or to see that it is too long. The rest is dropped.
// It never blocks and never fails. The zero value is ready; it is safe for concurrent use and must not be copied.
type Capture struct {
	mu   sync.Mutex
	kept []byte
}

// Write takes all of text, and keeps what there is room for.
func (c *Capture) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	room := MaxOutput + 1 - len(c.kept)
	c.kept = append(c.kept, text[:min(room, len(text))]...)
	return len(text), nil
}

// Bytes returns a copy of what was kept so far, at most MaxOutput+1 bytes.
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
