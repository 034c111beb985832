package bound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
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
	i.call.Calls.abandon(i, AbandonedCall{
		Key: i.call.Key, StartedAt: i.start, AbandonedAt: clocks.Now(i.call.Clock), Note: i.note(),
	})
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
		defer func() { i.containRelease(recover()) }() // logged also if it panics after the wait
		i.call.Release()
		return struct{}{}, nil
	})
	if errors.Is(err, bounded.ErrLeftBehind) {
		i.tellWithin(i.call.Grace, "release hook of an abandoned call has not returned", "waited", i.call.Grace)
	}
}

// containRelease lets a panic of the hook go no further.
func (i *invocation) containRelease(recovered any) {
	if recovered != nil {
		i.tell(slog.LevelError, "release hook of an abandoned call panicked", panicAttrs(newCallPanic(recovered))...)
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
	i.log().Log(context.Background(), level, msg, i.attrs(more...)...) //nolint:sloglint // one of four
}

// panicAttrs are what a log may hold of a panic: its type and where it happened, and not what it says.
func panicAttrs(p *CallPanic) []any {
	return []any{"panic_type", fmt.Sprintf("%T", p.Value), "stack", string(p.Stack)}
}

// attrs are the attributes of the call, and more.
func (i *invocation) attrs(more ...any) []any {
	all := []any{"key", i.call.Key, "limit", i.call.Limit, "grace", i.call.Grace}
	if i.run != nil {
		all = append(all, "run", i.run.ID())
	}
	return append(all, more...)
}

func (i *invocation) log() *slog.Logger {
	switch {
	case i.call.Logger != nil:
		return i.call.Logger
	case i.run != nil:
		return i.settings().Logger
	}
	return slog.Default()
}
