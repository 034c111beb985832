// Package digest remembers which digests of progress were seen, the oldest forgotten first.
//
// It keeps hashes, so that a digest may be as long as it likes, and not what they are of. Nothing of them is stored.
package digest

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// most is how many digests are remembered.
const most = 1024

var seed = maphash.MakeSeed()

// A Memory remembers the last 1,024 digests. The zero value remembers none, and takes a word until the first one comes.
// It is safe for concurrent use.
type Memory struct{ of atomic.Pointer[seen] }

type seen struct {
	mu     sync.Mutex
	hashes map[uint64]struct{}
	ring   []uint64
	next   int
}

// Add remembers the digest, and reports whether it was not remembered.
func (m *Memory) Add(digest string) (fresh bool) {
	s := m.of.Load()
	if s == nil {
		m.of.CompareAndSwap(nil, &seen{hashes: map[uint64]struct{}{}})
		s = m.of.Load()
	}
	return s.add(maphash.String(seed, digest))
}

func (s *seen) add(hash uint64) (fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.hashes[hash]; known {
		return false
	}
	s.hashes[hash] = struct{}{}
	if len(s.ring) < most {
		s.ring = append(s.ring, hash)
		return true
	}
	delete(s.hashes, s.ring[s.next])
	s.ring[s.next], s.next = hash, (s.next+1)%most
	return true
}
