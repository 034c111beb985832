// Package tail keeps the last bytes of what is written to it, in memory of a fixed size. It does not redact them.
package tail

import (
	"bytes"
	"sync"
)

// A Buffer is a writer that keeps the last bytes. [New] makes one. It is safe for concurrent use.
type Buffer struct {
	mu   sync.Mutex
	ring []byte // one byte more than is kept: it shows whether the rest starts a line
	next int    // index of the next byte to write
	full bool   // the ring was filled
}

// New makes a Buffer that keeps n bytes, or none if n is not positive. It allocates all of its memory at once.
func New(n int) *Buffer { return &Buffer{ring: make([]byte, max(n, 0)+1)} }

// Write copies the end of p to the Buffer. It never fails, and blocks only for other calls.
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

// Bytes returns a copy of what is kept. If the start of a line was dropped, Bytes leaves out the rest of that line,
// unless nothing would be left then.
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
