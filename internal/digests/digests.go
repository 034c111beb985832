// Package digests remembers what progress was seen.
//
// It keeps hashes and no text, and as many as it is told to.
package digests

import (
	"hash/maphash"
	"sync"
)

// maxKept is how many digests of progress are remembered.
const maxKept = 1024

// A Set remembers what progress was seen, the oldest forgotten first. It keeps hashes, so that a digest may be as
// long as it likes.
type Set struct {
	mu   sync.Mutex
	seen map[uint64]struct{}
	ring []uint64
	next int
}

var seed = maphash.MakeSeed()

// Add reports whether the digest was not remembered, and remembers it.
func (d *Set) Add(digest string) bool {
	hash := maphash.String(seed, digest)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.seen[hash]; known {
		return false
	}
	if d.seen == nil {
		d.seen = map[uint64]struct{}{}
	}
	d.seen[hash] = struct{}{}
	if len(d.ring) < maxKept {
		d.ring = append(d.ring, hash)
		return true
	}
	delete(d.seen, d.ring[d.next])
	d.ring[d.next], d.next = hash, (d.next+1)%maxKept
	return true
}
