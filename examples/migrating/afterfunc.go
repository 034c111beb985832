package migrating

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/idle"
)

//migrating:before

// A resetTimer ends a context when its timer was not reset for the limit.
type resetTimer struct {
	waiting func() bool
	end     context.CancelCauseFunc

	mu             sync.Mutex // guards the rest
	limit, allowed time.Duration
	timer          *time.Timer // nil if the guard is off
}

func startTimer(ctx context.Context, limit time.Duration, waiting func() bool) (context.Context, *resetTimer, error) {
	if limit < 0 {
		return ctx, nil, fmt.Errorf("the idle limit is %v; use 0 to switch it off", limit)
	}
	ctx, end := context.WithCancelCause(ctx)
	r := &resetTimer{waiting: waiting, end: end, limit: limit}
	if limit > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.timer = time.AfterFunc(limit, r.fire)
	}
	return ctx, r, nil
}

func (r *resetTimer) fire() {
	if r.waiting() {
		r.reset()
		return
	}
	r.end(fmt.Errorf("%w: %v", ErrSilent, r.limit))
}

func (r *resetTimer) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Reset(cmp.Or(r.allowed, r.limit))
	}
}

// during allows a silence until done is called.
func (r *resetTimer) during(silence time.Duration) (done func()) {
	if silence <= 0 {
		silence = 1<<63 - 1
	}
	allow := func(silence time.Duration) {
		r.mu.Lock()
		r.allowed = silence
		r.mu.Unlock()
		r.reset()
	}
	allow(silence)
	return func() { allow(0) }
}

func (r *resetTimer) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
	r.end(nil)
}

// AfterFuncBefore has an agent's messages handled until there are no more or it is silent for too long.
func AfterFuncBefore(ctx context.Context, messages <-chan Message, limit time.Duration) error {
	waiting := func() bool { return len(messages) > 0 }
	ctx, guard, err := startTimer(ctx, limit, waiting)
	if err != nil {
		return err
	}
	defer guard.stop()
	return Stream(ctx, messages, func(message Message) error {
		defer guard.during(message.Silence)()
		return message.Handle(ctx, guard.reset)
	})
}

//migrating:after

// AfterFuncAfter has an agent's messages handled until there are no more or it is silent for too long.
func AfterFuncAfter(ctx context.Context, messages <-chan Message, limit time.Duration) error {
	waiting := func() bool { return len(messages) > 0 }
	ctx, timer, err := idle.New(ctx, idle.Config{Limit: limit, Busy: waiting})
	if err != nil {
		return err
	}
	defer timer.Close()
	return Stream(ctx, messages, func(message Message) error {
		defer timer.Widen(message.Silence)() // both ends are signs of life
		return message.Handle(ctx, timer.Alive)
	})
}

//migrating:end
