package relay

import "sync"

// Sizes in bytes.
const (
	pipeSize = 1 << 20
	bufSize  = 256 << 10
)

// buffers saves short commands, of which there can be many, the cost of clearing 256 KiB.
var buffers = sync.Pool{New: func() any { return new([bufSize]byte) }}

// A buffer is one of buffers, from the first use until its release. A stream of a silent child has none.
type buffer struct{ held *[bufSize]byte }

func (b *buffer) bytes() []byte {
	if b.held == nil {
		b.held = buffers.Get().(*[bufSize]byte)
	}
	return b.held[:]
}

func (b *buffer) release() {
	if b.held != nil {
		buffers.Put(b.held)
		b.held = nil
	}
}
