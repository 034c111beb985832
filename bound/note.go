package bound

import (
	"context"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
)

// callKey is the key under which a call's context carries its invocation.
type callKey struct{}

// Note says what the work is doing, such as the name of a tool, for diagnosis: the last note of a call stands in its
// [Outcome], its [Overrun], the list of abandoned calls and the event that a run has of it, so it must not hold
// anything secret. It is noted on the innermost call of the context, the calls around it, and the run of the context
// as [watchdog.Watchdog.Note] does. At most 200 characters of its first KiB are kept, control characters as spaces.
//
// A note of a call that was abandoned is dropped. Where the context belongs to neither a call nor a run Note does
// nothing. It takes no more than a few allocations, never waits for a store, and is safe for concurrent use.
func Note(ctx context.Context, what string) {
	call := callOf(ctx)
	if call.isAbandoned() {
		return
	}
	if call != nil {
		note := record.Note(what)
		for ; call != nil; call = call.outer {
			call.noted.Store(&note)
		}
	}
	watchdog.FromContext(ctx).Note(what)
}

// callOf returns the innermost call that the context belongs to, nil where there is none.
func callOf(ctx context.Context) *invocation {
	i, _ := ctx.Value(callKey{}).(*invocation)
	return i
}

// Value finds the call besides what the context outside carries.
func (i *invocation) Value(key any) any {
	if key == (callKey{}) {
		return i
	}
	return i.Context.Value(key)
}

// isAbandoned reports whether this call was abandoned, or one around it.
func (i *invocation) isAbandoned() bool {
	for ; i != nil; i = i.outer {
		i.mu.Lock()
		left := i.stage == abandoned
		i.mu.Unlock()
		if left {
			return true
		}
	}
	return false
}

// note is the last note of the call, or else that of the run in its context.
func (i *invocation) note() string {
	if note := i.noted.Load(); note != nil {
		return *note
	}
	return i.run.LastNote()
}
