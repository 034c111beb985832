package idle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/beat"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// BusyTimeout is how long Busy of a [Config] may take to answer.
const BusyTimeout = time.Second

// A Config says how silence is guarded against. It is copied.
type Config struct {
	// Limit is how long the work may give no sign of life. Zero or less and [watchdog.NoLimit] switch the guard off.
	Limit time.Duration
	// Cancel, if set, is called with the [*watchdog.Stop] when the silence ends the work, after the context that [New]
	// returns has ended: for work whose context exists already, of which it is the [context.CancelCauseFunc]. It is called
	// once at most, on a goroutine of its own with no lock held. A panic in it is logged.
	Cancel context.CancelCauseFunc
	// Busy, if set, is asked once before a stretch of silence ends the work or is notified: whether the silence is that of
	// a reader that is behind, which has messages waiting. True counts as a sign of life at that moment. It is called on a
	// goroutine of its own with no lock held, and may call the timer. An answer that takes longer than
	// [BusyTimeout] is false, and it is not asked again before it has returned. A panic in it is logged and is
	// false.
	Busy func() bool
	// Notify, if set, is called instead of ending the work: once for each stretch of silence, and again only after the
	// next sign of life. It is called on a goroutine of its own with no lock held, one call at a time; while one runs
	// nothing is looked at. A panic in it is logged.
	Notify func(*watchdog.Stop)
}

// A Timer measures how long the work in a context has given no sign of life, and ends the context when that is too
// long. Make one with [WithLimit] or [New], and end it with [Timer.Close]. It is one runtime timer and no goroutine.
//
// All methods are safe for concurrent use, and all work on a nil Timer, which [FromContext] returns where there is
// none: nothing is guarded then.
type Timer struct {
	cfg    Config
	base   time.Time
	signs  beat.Beat    // since base
	around handle.Signs // a sign of life is one of theirs, too; nil for none
	run    handle.Run   // whose note is in the stop; nil for none
	inner  context.Context
	cancel context.CancelCauseFunc
	asking atomic.Bool // a call of Busy has not returned
	stop   atomic.Pointer[watchdog.Stop]

	mu        sync.Mutex            // guards the rest
	alarm     *time.Timer           // nil if the timer is off
	limit     time.Duration         // the one in force
	stretches map[any]time.Duration // the limits of those that are open, by their keys
	setFor    time.Duration         // when the alarm is to ring
	graces    *verdict.Graces       // what it gave when it rang late, nil for none
	closed    bool
	looking   bool      // a look is under way, and sets the alarm when it ends
	asked     beat.Mark // the last sign when Busy was asked
	told      beat.Mark // that when Notify was called
}

// WithLimit returns a context that ends when no sign of life came for longer than the limit, with a [*watchdog.Stop] as
// its cause, and the timer that takes the signs. The first stretch of silence begins now. A limit of 0 or less and
// [watchdog.NoLimit] are off: the context ends by [Timer.Close] or with its parent alone.
//
// It costs about as much as [context.WithCancelCause] and [time.AfterFunc].
func WithLimit(ctx context.Context, limit time.Duration) (context.Context, *Timer) {
	return begin(ctx, Config{Limit: limit})
}

// New is [WithLimit] with all that can be set. Where the context of the work exists already, the work may keep that:
// what New returns is made from ctx, and only its readers, writers and bodies need it, to find the timer.
//
// New wraps [watchdog.ErrInvalid] if both Cancel and Notify are set, because Notify is called instead of ending the
// work. It then returns the context that it was given and a nil Timer.
func New(ctx context.Context, cfg Config) (context.Context, *Timer, error) {
	if cfg.Cancel != nil && cfg.Notify != nil {
		return ctx, nil, fmt.Errorf("guard against silence: %w config: Cancel and Notify are set, and of a silence that is "+
			"notified nothing ends; leave one of them out", watchdog.ErrInvalid)
	}
	guarded, t := begin(ctx, cfg)
	return guarded, t, nil
}

// lengthOf is the limit that a host wrote.
func lengthOf(limit time.Duration) time.Duration {
	if limit <= 0 {
		return watchdog.NoLimit
	}
	return limit
}

func begin(ctx context.Context, cfg Config) (context.Context, *Timer) {
	cfg.Limit = lengthOf(cfg.Limit)
	t := &Timer{cfg: cfg, base: time.Now(), limit: cfg.Limit, around: handle.SignsOf(ctx), run: handle.Of(ctx)}
	t.inner, t.cancel = context.WithCancelCause(ctx)
	t.signs.At(0)
	if cfg.Limit != watchdog.NoLimit {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.setFor = afterLimit(cfg.Limit)
		t.alarm = time.AfterFunc(t.setFor, t.look)
	}
	return (*timerContext)(t), t
}

// Alive is a sign of life: the silence begins anew. It costs about as much as reading the clock, takes no lock and
// allocates nothing. Signs within the same millisecond may count as one at its end, so that silence is never found too
// long too early.
func (t *Timer) Alive() {
	if t == nil {
		return
	}
	now := time.Since(t.base)
	t.signs.At(now)
	if t.around != nil {
		t.around.AliveAt(t.base.Add(now))
	}
}

// Stopped returns why the silence ended the context, and whether it did. A context that ended with its parent or by
// [Timer.Close] was not stopped.
func (t *Timer) Stopped() (*watchdog.Stop, bool) {
	if t == nil {
		return nil, false
	}
	stop := t.stop.Load()
	var cause *watchdog.Stop
	if stop == nil || !errors.As(context.Cause(t.inner), &cause) || cause != stop {
		return nil, false // the parent ended, or Close was called, at that moment
	}
	return stop, true
}

// Close ends the guarding and the context. It can be called at any time and again; after it nothing is ended or
// notified any more, but for a call of Notify that has begun. It does not wait for that.
func (t *Timer) Close() {
	if t == nil {
		return
	}
	t.close()
	t.cancel(nil)
}

func (t *Timer) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.alarm != nil {
		t.alarm.Stop()
	}
}

// timerSigns are the timer for those packages of this module that give signs of life and do not care what for.
type timerSigns Timer

var _ handle.Timer = (*timerSigns)(nil)

// Alive implements handle.Signs.
func (t *timerSigns) Alive() { (*Timer)(t).Alive() }

// AliveAt implements handle.Signs.
func (t *timerSigns) AliveAt(now time.Time) {
	t.signs.At(now.Sub(t.base))
	if t.around != nil {
		t.around.AliveAt(now)
	}
}

// MaxSilence implements handle.Timer.
func (t *timerSigns) MaxSilence() time.Duration {
	t.mu.Lock()
	shortest := t.limit
	t.mu.Unlock()
	if around, ok := t.around.(handle.Timer); ok {
		shortest = min(shortest, around.MaxSilence())
	}
	return shortest
}

// Hold implements handle.Timer.
func (t *timerSigns) Hold() (release func()) {
	narrow := (*Timer)(t).Widen(watchdog.NoLimit)
	around, ok := t.around.(handle.Timer)
	if !ok {
		return narrow
	}
	outer := around.Hold()
	return func() {
		narrow()
		outer()
	}
}

type timerKey struct{}

// FromContext returns the innermost timer that the context belongs to, nil if there is none.
func FromContext(ctx context.Context) *Timer {
	t, _ := ctx.Value(timerKey{}).(*Timer)
	return t
}

// A timerContext is the timer as the context that it ends.
type timerContext Timer

// Deadline implements [context.Context].
func (c *timerContext) Deadline() (time.Time, bool) { return c.inner.Deadline() }

// Done implements [context.Context].
func (c *timerContext) Done() <-chan struct{} { return c.inner.Done() }

// Err implements [context.Context].
func (c *timerContext) Err() error { return c.inner.Err() }

// Value finds the timer besides what the parent carries.
func (c *timerContext) Value(key any) any {
	switch key {
	case timerKey{}:
		return (*Timer)(c)
	case handle.SignsKey{}:
		return (*timerSigns)(c)
	}
	return c.inner.Value(key)
}
