// Package tail keeps the end of what is written to it, in memory that does not grow. It does not redact.
package tail

import (
	"bytes"
	"sync"
)

// A Buffer keeps the last bytes of what was written. [New] makes one. It is safe for concurrent use.
type Buffer struct {
	mu   sync.Mutex
	ring []byte // one byte more than is kept: the one before tells whether a line starts there
	next int    // where the next byte goes
	full bool   // the ring went round
}

// New makes a Buffer that keeps n bytes; zero and less keep none. It takes the memory at once.
func New(n int) *Buffer { return &Buffer{ring: make([]byte, max(n, 0)+1)} }

// Write keeps the end of p, in the place of what was written before. It never fails, and waits for other calls only. It does not keep p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(p)
	if drop := len(p) - len(b.ring); drop >= 0 {
		p, b.next, b.full = p[drop:], 0, true
	}
	first := copy(b.ring[b.next:], p)
	second := copy(b.ring, p[first:])
	b.full = b.full || b.next+len(p) >= len(b.ring)
	b.next = (b.next + first + second) % len(b.ring)
	return n, nil
}

// Bytes returns a copy of what was kept. Where something was dropped it starts at the start of a line: the rest of a line whose start was dropped is left out,
// unless nothing else would be there.
func (b *Buffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.full {
		return bytes.Clone(b.ring[:b.next])
	}
	kept := append(bytes.Clone(b.ring[b.next:]), b.ring[:b.next]...)
	before, kept := kept[0], kept[1:]
	if before == '\n' {
		return kept
	}
	if _, rest, found := bytes.Cut(kept, []byte("\n")); found && len(rest) > 0 {
		return rest
	}
	return kept
}
