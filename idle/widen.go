package idle

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A wider is a stretch with a limit of its own.
type wider struct {
	limit  time.Duration
	closed atomic.Bool
}

// Widen begins a stretch in which silence may last longer: for a tool in flight, a sub-agent, a person's approval.
// Until narrow is called, the limit is the longest of the timer's own and of all stretches that are open; a limit of 0
// or less and [watchdog.NoLimit] mean none. Narrow ends the stretch; calling it again does nothing. Both edges are
// signs of life. Signs of life in between renew the limit as ever, so nothing has to be widened again for each message.
//
// A timer that is off, or nil, stays so.
func (t *Timer) Widen(limit time.Duration) (narrow func()) {
	if t == nil {
		return func() {}
	}
	if limit <= 0 {
		limit = watchdog.NoLimit
	}
	w := &wider{limit: limit}
	t.Alive()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = append(t.open, w)
	t.limit = max(t.limit, limit)
	return func() { t.narrow(w) }
}

// narrow ends a stretch. The limit can be shorter after it, so that the alarm is set anew. The sign comes before that,
// and without the lock: it can call the host, which traces the run around.
func (t *Timer) narrow(w *wider) {
	if w.closed.Swap(true) {
		return
	}
	t.Alive()
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.open, w)
	t.open = slices.Delete(t.open, i, i+1)
	t.limit = t.longest()
	if t.alarm != nil && !t.closed && t.limit != watchdog.NoLimit {
		t.alarm.Reset(afterLimit(t.limit))
	}
}

func (t *Timer) longest() time.Duration {
	longest := t.cfg.Limit
	for _, w := range t.open {
		longest = max(longest, w.limit)
	}
	return longest
}
