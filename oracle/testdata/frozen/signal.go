package watchdog

import (
	"context"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/handle"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
)

// FromContext returns the watchdog of the innermost run that the context belongs to, nil if there is none. All
// methods of a nil [Watchdog] work, so that deep code need not know whether it is watched.
func FromContext(ctx context.Context) *Watchdog {
	h, _ := ctx.Value(handle.Key{}).(*runHandle)
	return (*Watchdog)(h)
}

// Activity is a sign of life: it restarts [Budget].Idle and the Idle of holds, also of the runs around a layer. It
// never polls, records or waits for the store. It is cheap enough to be called per token from many goroutines: about
// what reading the clock costs, no lock and no allocation. (The first sign of a budget with FromFirstSign takes a lock
// to set the timer; so does each with [Config].OnSignal or a clock of the host's.) Signs within the same millisecond
// may count as one at its end, so that a limit is never found exceeded too early.
func (w *Watchdog) Activity() {
	for ; w != nil; w = w.outer {
		w.signal(false)
	}
}

// Progress is a sign that the work moved forward: it restarts [Budget].NoProgress, puts the ladders back to their
// first rungs, and is activity too. A heartbeat is not progress. The first progress after a directive takes a lock, to
// have it recorded soon.
func (w *Watchdog) Progress() {
	for ; w != nil; w = w.outer {
		w.signal(true)
	}
}

// ProgressDigest is [Watchdog.Progress] if the digest, such as a hash of the state reached, was not given before in
// this attach, and activity if it was: a status that flaps between two values is not progress. The runs around a layer
// remember the digests of all their layers, so that one which fresh layers repeat is progress of theirs and not of the
// run. ProgressDigest reports whether the digest was new to the innermost run that heeds it, and true if none does. The
// last 1,024 digests are remembered; an older one counts as new again.
func (w *Watchdog) ProgressDigest(digest string) bool {
	first, heeded := true, false
	for ; w != nil; w = w.outer {
		pulse := w.pulse.Load()
		if pulse == nil {
			continue
		}
		fresh := pulse.digests.add(digest)
		w.signal(fresh)
		if !heeded {
			first, heeded = fresh, true
		}
	}
	return first
}

// Note says what the run is doing, such as the name of a tool, for diagnosis: the last note stands in the [Stop], in
// directives and in their events, so it must not hold anything secret. At most 200 characters of its first KiB are
// kept, control characters as spaces. It is not a sign of life.
func (w *Watchdog) Note(what string) {
	if w == nil {
		return
	}
	note := record.Note(what)
	for ; w != nil; w = w.outer {
		w.note.Store(&note)
	}
}

// LastNote returns the last note of the run, empty where there was none.
func (w *Watchdog) LastNote() string {
	if w == nil {
		return ""
	}
	if note := w.note.Load(); note != nil {
		return *note
	}
	return ""
}
