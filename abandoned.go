package watchdog

import (
	"fmt"
	"log/slog"
	"time"
)

// abandon leaves the call behind unless it has settled, and reports whether it did. It is listed before it can end.
func (f *flight) abandon() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stage == settled {
		return false
	}
	f.stage = abandoned
	f.call.Calls.abandon(f, AbandonedCall{
		Key: f.call.Key, StartedAt: f.start, AbandonedAt: now(f.call.Clock), Note: f.watchdog.LastNote(),
	})
	return true
}

// leave is what is done for the caller of an abandoned call. What the call held is given back before its key is free.
func (f *flight) leave(layer BoundLayer) ending {
	elapsed := f.since()
	if layer == LayerSoft {
		layer = LayerHard
	}
	f.release()
	f.call.Calls.free(f)
	return ending{layer: layer, abandoned: true, elapsed: elapsed}
}

// release calls the hook, on a goroutine of its own because it may hang as the call did.
func (f *flight) release() {
	if f.call.Release == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { f.containRelease(recover()) }()
		f.call.Release()
	}()
	if !waitFor(done, f.call.Clock, f.call.Grace) {
		f.log().Error("release hook of an abandoned call has not returned", f.attrs("waited", f.call.Grace)...)
	}
}

// containRelease lets a panic of the hook go no further.
func (f *flight) containRelease(recovered any) {
	if recovered != nil {
		f.log().Error("release hook of an abandoned call panicked", f.attrs(panicked(newCallPanic(recovered))...)...)
	}
}

// endLate is the end of an abandoned call: nobody gets its result, and its panic goes no further.
func (f *flight) endLate(elapsed time.Duration) {
	f.call.Calls.end(f, now(f.call.Clock))
	if f.panicked != nil {
		f.log().Error("abandoned call panicked", f.attrs(append(panicked(f.panicked), "elapsed", elapsed)...)...)
		return
	}
	f.log().Info("abandoned call ended", f.attrs("elapsed", elapsed)...)
}

// panicked is what a log may hold of a panic: its type and where it happened, and not what it says.
func panicked(p *CallPanic) []any {
	return []any{"panic_type", fmt.Sprintf("%T", p.Value), "stack", string(p.Stack)}
}

// attrs are the attributes of the call, and more.
func (f *flight) attrs(more ...any) []any {
	all := []any{"key", f.call.Key, "limit", f.call.Limit, "grace", f.call.Grace}
	if f.watchdog != nil {
		all = append(all, "run", f.watchdog.id)
	}
	return append(all, more...)
}

func (f *flight) log() *slog.Logger {
	switch {
	case f.call.Logger != nil:
		return f.call.Logger
	case f.watchdog != nil:
		return f.watchdog.log()
	}
	return slog.Default()
}
