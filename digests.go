package watchdog

import (
	"hash/maphash"
	"sync"
)

// maxDigests is how many digests of progress are remembered.
const maxDigests = 1024

// digests remembers what progress was seen, the oldest forgotten first. It keeps hashes, so that a digest may be as
// long as it likes.
type digests struct {
	mu   sync.Mutex
	seen map[uint64]struct{}
	ring []uint64
	next int
}

var digestSeed = maphash.MakeSeed()

// add reports whether the digest was not remembered, and remembers it.
func (d *digests) add(digest string) bool {
	hash := maphash.String(digestSeed, digest)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.seen[hash]; known {
		return false
	}
	if d.seen == nil {
		d.seen = map[uint64]struct{}{}
	}
	d.seen[hash] = struct{}{}
	if len(d.ring) < maxDigests {
		d.ring = append(d.ring, hash)
		return true
	}
	delete(d.seen, d.ring[d.next])
	d.ring[d.next], d.next = hash, (d.next+1)%maxDigests
	return true
}
