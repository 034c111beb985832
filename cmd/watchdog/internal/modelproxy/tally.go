package modelproxy

import (
	"sync"
	"sync/atomic"
)

// A tally counts the calls of a proxy, and those that it refused.
type tally struct {
	calls, refused atomic.Int64
	first          atomic.Pointer[string]
}

// refuse counts a refusal.
func (t *tally) refuse(why string) {
	t.refused.Add(1)
	t.first.CompareAndSwap(nil, &why)
}

// Calls returns how many calls of models came, also those that were refused.
func (p *Proxy) Calls() int64 { return p.tally.calls.Load() }

// Refused returns how many requests were refused, and why the first was: what its client was told, without any text of
// the request but the name of a model or a field.
func (p *Proxy) Refused() (n int64, first string) {
	if why := p.tally.first.Load(); why != nil {
		first = *why
	}
	return p.tally.refused.Load(), first
}

// under are the requests under way.
type under struct {
	mu   sync.Mutex
	over bool
	all  sync.WaitGroup
}

// begin counts a request, unless all is over. Its Done ends it.
func (u *under) begin() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.over {
		u.all.Add(1)
	}
	return !u.over
}

// shut lets no other request begin.
func (u *under) shut() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
}
