package modelproxy

import (
	"sync"
	"sync/atomic"
)

// A tally counts the calls of a proxy, those that it refused, and those that have no answer.
type tally struct {
	heard, calls, answered atomic.Int64
	refused                [len(kinds)]reasons
	missing                reasons
}

// A Kind is what a call was refused for.
type Kind string

// The kinds. Busy is for the client to try again.
const (
	Limit      Kind = "limit"     // it does not fit
	Unbounded  Kind = "unbounded" // the most that it can use is not known
	Ended      Kind = "ended"     // the run has ended
	Busy       Kind = "busy"      // calls under way held what it needs for as long as it may wait
	Unread     Kind = "unread"    // its path or body cannot be read, and so not metered
	Redirected Kind = "redirect"  // its API sends it elsewhere
)

var kinds = [...]Kind{Limit, Unbounded, Ended, Busy, Unread, Redirected}

// A Refusal is how many calls were refused of one kind, and why the first was: what its client was told, without any
// text of the request but the name of a model or a field.
type Refusal struct {
	Kind  Kind   `json:"kind"`
	Count int64  `json:"count"`
	First string `json:"first"`
}

// reasons counts calls that failed, and has the reason of the first.
type reasons struct {
	n     atomic.Int64
	first atomic.Pointer[string]
}

func (r *reasons) add(why string) {
	r.first.CompareAndSwap(nil, &why) // before it counts
	r.n.Add(1)
}

func (r *reasons) all() (n int64, first string) {
	n = r.n.Load()
	if why := r.first.Load(); why != nil {
		first = *why
	}
	return n, first
}

// Heard returns how many requests of any sort came: a command that makes some heeds the variables.
func (p *Proxy) Heard() int64 { return p.tally.heard.Load() }

// Calls returns how many calls of models came, also those that were refused.
func (p *Proxy) Calls() int64 { return p.tally.calls.Load() }

// Answered returns how many of them got a response of their API, whatever it says.
func (p *Proxy) Answered() int64 { return p.tally.answered.Load() }

// Refused returns the refusals of each kind that there were, in the order of the kinds.
func (p *Proxy) Refused() (all []Refusal) {
	for i, kind := range kinds {
		if n, first := p.tally.refused[i].all(); n > 0 {
			all = append(all, Refusal{kind, n, first})
		}
	}
	return all
}

// Unanswered returns how many requests had no answer from their API while their client waited for it, and why the first
// had none: what its client was told, without any text of a request or an answer.
func (p *Proxy) Unanswered() (n int64, first string) { return p.tally.missing.all() }

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

func (u *under) shut() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
}
