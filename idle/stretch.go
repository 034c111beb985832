package idle

import "time"

// A Widening says how the limit of a stretch and the timer's own go together. Without one the stretch's counts instead
// of the timer's own, also where it is shorter.
type Widening int

// AtLeast has the limit of a stretch count only as far as it is longer than the timer's own.
const AtLeast Widening = 1

// Widen begins a stretch with a limit of its own: for a tool in flight, a sub-agent, a person's approval. Until narrow
// is called that counts instead of the timer's own, as the Idle of a [watchdog.HoldLimit] does: a tool may be silent
// for longer than its agent, or for less long. Of several stretches that are open the longest counts. With [AtLeast]
// one is never shorter than the timer's own. A limit of 0 or less and [watchdog.NoLimit] mean none. Narrow ends the
// stretch; calling it again does nothing. Both edges are signs of life. Signs of life in between renew the limit as
// ever, so nothing has to be widened again for each message.
//
// A timer that is off, or nil, stays so.
func (t *Timer) Widen(limit time.Duration, how ...Widening) (narrow func()) {
	key := new(byte)
	t.open(key, limit, how)
	return func() { t.narrow(key) }
}

// Begin is [Timer.Widen] for a call that has an ID, such as that of a tool, whose result comes as another message:
// [Timer.End] ends the stretch. A stretch that is open under the ID already gets this limit.
func (t *Timer) Begin(id string, limit time.Duration, how ...Widening) { t.open(id, limit, how) }

// End ends the stretch that [Timer.Begin] began under the ID. If none is open under it, End does nothing, and is no
// sign of life.
func (t *Timer) End(id string) { t.narrow(id) }

// open opens a stretch, by a key that no other has which is open. The sign of life comes before the rest, and without
// the lock: it can call the host, which traces the run around.
func (t *Timer) open(key any, limit time.Duration, how []Widening) {
	if t == nil {
		return
	}
	limit = lengthOf(limit)
	for _, one := range how {
		if one == AtLeast {
			limit = max(limit, t.cfg.Limit)
		}
	}
	t.Alive()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stretches == nil {
		t.stretches = map[any]time.Duration{}
	}
	alone, was := len(t.stretches) == 0, t.stretches[key]
	t.stretches[key] = limit
	switch {
	case alone, limit >= t.limit:
		t.setLimit(limit)
	case was == t.limit:
		t.setLimit(t.longest())
	}
}

// narrow ends a stretch. The sign is as with open.
func (t *Timer) narrow(key any) {
	if t == nil {
		return
	}
	t.mu.Lock()
	_, open := t.stretches[key]
	t.mu.Unlock()
	if !open {
		return
	}
	t.Alive()
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.stretches[key]
	delete(t.stretches, key)
	switch {
	case len(t.stretches) == 0:
		t.setLimit(t.cfg.Limit)
	case was == t.limit:
		t.setLimit(t.longest())
	}
}

// longest is the longest limit of the stretches that are open, of which none is longer than that in force.
func (t *Timer) longest() (longest time.Duration) {
	for _, limit := range t.stretches {
		if longest = max(longest, limit); longest == t.limit {
			break
		}
	}
	return longest
}

// setLimit has another limit in force. Only for one that is shorter the alarm is set anew. The caller holds mu.
func (t *Timer) setLimit(limit time.Duration) {
	if t.alarm == nil { // the timer is off
		return
	}
	shorter := limit < t.limit
	t.limit = limit
	if shorter && !t.closed {
		t.set(afterLimit(limit))
	}
}
