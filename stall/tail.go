package stall

import (
	"bytes"
	"sync"
)

// A tailBuffer keeps the last bytes of an output, in memory of a fixed size, all of which is allocated at once. It does
// not redact them. It is safe for concurrent use.
type tailBuffer struct {
	mu   sync.Mutex
	ring []byte // one byte more than is kept: it shows whether the rest starts a line
	next int    // index of the next byte to write
	full bool   // the ring was filled
}

// newTail makes a buffer that keeps n bytes.
func newTail(n int) *tailBuffer { return &tailBuffer{ring: make([]byte, n+1)} }

// look copies the end of p to the buffer.
func (b *tailBuffer) look(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if drop := len(p) - len(b.ring); drop >= 0 {
		p, b.next, b.full = p[drop:], 0, true
	}
	first := copy(b.ring[b.next:], p)
	second := copy(b.ring, p[first:])
	b.full = b.full || b.next+len(p) >= len(b.ring)
	b.next = (b.next + first + second) % len(b.ring)
}

// bytes returns a copy of what is kept. If the start of a line was dropped, it leaves out the rest of that line, unless
// nothing would be left then.
func (b *tailBuffer) bytes() []byte {
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
