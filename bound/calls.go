package bound

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
)

// ErrKeyInUse is found by errors.Is in every [KeyInUse].
var ErrKeyInUse = errors.New("key in use")

// A KeyInUse says that a call was refused because one with its key is in flight. The error of its [Outcome] wraps it,
// and errors.Is finds [ErrKeyInUse] in it.
type KeyInUse struct {
	// Key is that of both calls.
	Key string
	// Since is when the call in flight began.
	Since time.Time
}

// Error names the key and since when it is in use.
func (e *KeyInUse) Error() string {
	return fmt.Sprintf("%v: a call %q is in flight since %s; wait for it or let this one pass", ErrKeyInUse, e.Key,
		clocks.Text(e.Since))
}

// Unwrap returns [ErrKeyInUse].
func (e *KeyInUse) Unwrap() error { return ErrKeyInUse }

const maxLateEnds = 32

// Calls keeps the keys of the calls in flight and the account of the abandoned ones. The zero value is ready; it must
// not be copied once it is in use. All methods are safe for concurrent use.
type Calls struct {
	mu        sync.Mutex
	inFlight  map[string]*invocation
	abandoned []*invocation
	late      []LateEnd
	counts    Counts
}

// Counts count what happened to the calls of a [Calls] since the first one.
type Counts struct {
	// Abandoned is how many calls were abandoned, Ended how many of them have ended since, and Panicked how many of those
	// in a panic.
	Abandoned, Ended, Panicked uint64
}

// An AbandonedCall is a call that had not returned when its grace was over.
type AbandonedCall struct {
	// Key is that of the [Call]; it may be empty.
	Key string
	// StartedAt is when the call began, AbandonedAt when its caller was let go.
	StartedAt, AbandonedAt time.Time
	// Note is the last thing that was noted by then, as in an [Outcome].
	Note string
}

// A LateEnd is the end of an abandoned call. Its result was dropped.
type LateEnd struct {
	AbandonedCall
	// EndedAt is when the call ended.
	EndedAt time.Time
	// Panic is what it panicked with; nil where it returned.
	Panic *CallPanic
}

// Abandoned returns the abandoned calls that have not ended, in the order in which they were abandoned. The slice is
// the caller's.
func (c *Calls) Abandoned() []AbandonedCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]AbandonedCall, len(c.abandoned))
	for at, i := range c.abandoned {
		all[at] = i.left
	}
	return all
}

// LateEnds returns the last 32 ends of abandoned calls, oldest first. The slice is the caller's.
func (c *Calls) LateEnds() []LateEnd {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.late)
}

// Counts returns how many calls were abandoned and what became of them.
func (c *Calls) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// take makes the invocation the one of its key. A call without a key takes none.
func (c *Calls) take(i *invocation) error {
	if i.call.Key == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.inFlight[i.call.Key]; other != nil {
		return &KeyInUse{Key: i.call.Key, Since: other.start}
	}
	if c.inFlight == nil {
		c.inFlight = map[string]*invocation{}
	}
	c.inFlight[i.call.Key] = i
	return nil
}

// free lets go of the key. It is called once for each invocation that took one, while that is still the key's.
func (c *Calls) free(i *invocation) {
	if i.call.Key == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inFlight, i.call.Key)
}

// abandon lists the invocation, until it ends.
func (c *Calls) abandon(i *invocation) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Abandoned++
	c.abandoned = append(c.abandoned, i)
}

// end takes an abandoned invocation from the list. It does not touch the key, which may be a newer call's.
func (c *Calls) end(i *invocation, endedAt time.Time) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.abandoned, i)
	c.abandoned = slices.Delete(c.abandoned, at, at+1)
	c.counts.Ended++
	if i.panicked != nil {
		c.counts.Panicked++
	}
	c.late = append(c.late, LateEnd{i.left, endedAt, i.panicked})
	c.late = slices.Delete(c.late, 0, max(len(c.late)-maxLateEnds, 0))
}
