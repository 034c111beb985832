package bound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/handle"
)

// abandon leaves the call behind unless it has settled, and reports whether it did. The call is listed before it can
// end.
func (i *invocation) abandon() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stage == settled {
		return false
	}
	i.stage = abandoned
	i.left = AbandonedCall{
		Key: i.call.Key, StartedAt: i.start, AbandonedAt: clocks.Now(i.call.Clock), Note: i.note(),
	}
	i.call.Calls.abandon(i)
	return true
}

// release calls the hook, which may hang as the call did.
func (i *invocation) release() {
	if i.call.Release == nil {
		return
	}
	wait, stop := clocks.WithTimeout(context.Background(), i.call.Clock, i.call.Grace)
	defer stop()
	_, err := bounded.Do(wait, func() (struct{}, error) {
		defer func() { // also of a panic after the wait
			if value := recover(); value != nil {
				i.tell(slog.LevelError, "release hook of an abandoned call panicked", panicAttrs(newCallPanic(value))...)
			}
		}()
		i.call.Release()
		return struct{}{}, nil
	})
	if errors.Is(err, bounded.ErrLeftBehind) {
		i.tellWithin(i.call.Grace, "release hook of an abandoned call has not returned", "waited", i.call.Grace)
	}
}

// endLate is the end of an abandoned call: nobody gets its result, and its panic goes no further.
func (i *invocation) endLate(elapsed time.Duration) {
	i.call.Calls.end(i, clocks.Now(i.call.Clock))
	if i.panicked != nil {
		i.tell(slog.LevelError, "abandoned call panicked", append(panicAttrs(i.panicked), "elapsed", elapsed)...)
		return
	}
	i.tell(slog.LevelInfo, "abandoned call ended", "elapsed", elapsed)
}

// tellWithin tells the log of an error, and waits for it no longer than limit: the caller of Do is to be let go.
func (i *invocation) tellWithin(limit time.Duration, msg string, more ...any) {
	wait, stop := clocks.WithTimeout(context.Background(), i.call.Clock, limit)
	defer stop()
	_, _ = bounded.Do(wait, func() (struct{}, error) {
		i.tell(slog.LevelError, msg, more...)
		return struct{}{}, nil
	})
}

// tell tells the log. If that panics there is nobody to tell, and the process must not end for it.
func (i *invocation) tell(level slog.Level, msg string, more ...any) {
	defer func() { _ = recover() }()
	attrs := []any{"key", i.call.Key, "limit", i.call.Limit, "grace", i.call.Grace}
	if i.run != nil {
		attrs = append(attrs, "run", i.run.ID())
	}
	log := cmp.Or(i.call.Logger, handle.LoggerOf(i.run.Context()))
	log.Log(context.Background(), level, msg, append(attrs, more...)...) //nolint:sloglint // one of four
}

// panicAttrs are what a log may hold of a panic: its type and where it happened, and not what it says.
func panicAttrs(p *CallPanic) []any {
	return []any{"panic_type", fmt.Sprintf("%T", p.Value), "stack", string(p.Stack)}
}

// A CallPanic is what [Do] panics with when the work did: the value, with the stack of the goroutine that it comes
// from. An abandoned call's panic is kept in a [LateEnd] instead.
type CallPanic struct {
	// Value is what the work panicked with.
	Value any
	// Stack is that of the work's goroutine at that moment, as [debug.Stack] writes it.
	Stack []byte
}

// newCallPanic is called while the stack still stands.
func newCallPanic(value any) *CallPanic { return &CallPanic{value, debug.Stack()} }

// Error is what the runtime prints of the panic if nobody recovers it: the value and the stack.
func (p *CallPanic) Error() string {
	return fmt.Sprintf("the bounded call panicked: %v\n\nits goroutine:\n%s", p.Value, p.Stack)
}

// Unwrap returns the value if it is an error, such as a [runtime.Error], otherwise nil.
func (p *CallPanic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}
