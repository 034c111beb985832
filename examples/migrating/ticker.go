package migrating

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
)

//migrating:before

// A monitor ends a context when nothing came for longer than the limit. It looks ten times in each limit.
type monitor struct {
	limit         time.Duration
	waiting       func() bool
	end           context.CancelCauseFunc
	last          atomic.Int64 // in Unix nanoseconds
	allowed       atomic.Int64 // the silence of what is in flight
	stop, stopped chan struct{}
}

func startMonitor(ctx context.Context, limit time.Duration, waiting func() bool) (context.Context, *monitor, error) {
	if limit < 0 {
		return ctx, nil, fmt.Errorf("the idle limit is %v; use 0 to switch it off", limit)
	}
	ctx, end := context.WithCancelCause(ctx)
	m := &monitor{limit: limit, waiting: waiting, end: end, stop: make(chan struct{}), stopped: make(chan struct{})}
	m.touch()
	go m.watch(ctx)
	return ctx, m, nil
}

func (m *monitor) touch() { m.last.Store(time.Now().UnixNano()) }

// during allows a silence until done is called.
func (m *monitor) during(silence time.Duration) (done func()) {
	if silence <= 0 {
		silence = 1<<63 - 1
	}
	m.touch()
	m.allowed.Store(int64(silence))
	return func() {
		m.touch()
		m.allowed.Store(0)
	}
}

func (m *monitor) watch(ctx context.Context) {
	defer close(m.stopped)
	if m.limit == 0 {
		return
	}
	ticker := time.NewTicker(m.limit / 10)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.stop:
			return
		case <-ticker.C:
			m.look()
		}
	}
}

func (m *monitor) look() {
	limit := max(m.limit, time.Duration(m.allowed.Load()))
	switch silent := time.Duration(time.Now().UnixNano() - m.last.Load()); {
	case silent <= limit:
	case m.waiting():
		m.touch()
	default:
		m.end(fmt.Errorf("%w: %v", ErrSilent, silent))
	}
}

func (m *monitor) close() {
	close(m.stop)
	<-m.stopped
	m.end(nil)
}

// TickerBefore consumes what an agent says until it closes the channel or is silent for too long.
func TickerBefore(ctx context.Context, messages <-chan Message, limit time.Duration) error {
	waiting := func() bool { return len(messages) > 0 }
	ctx, guard, err := startMonitor(ctx, limit, waiting)
	if err != nil {
		return err
	}
	defer guard.close()
	handle := func(message Message) error {
		defer guard.during(message.Silence)()
		return message.Handle(ctx, guard.touch)
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case message, open := <-messages:
			if !open {
				return nil
			}
			guard.touch()
			if err := handle(message); err != nil {
				return errors.Join(err, context.Cause(ctx))
			}
		}
	}
}

//migrating:after

// TickerAfter consumes what an agent says until it closes the channel or is silent for too long.
func TickerAfter(ctx context.Context, messages <-chan Message, limit time.Duration) error {
	waiting := func() bool { return len(messages) > 0 }
	ctx, timer, err := idle.New(ctx, idle.Config{Limit: cmp.Or(limit, watchdog.NoLimit), Busy: waiting})
	if err != nil {
		return err
	}
	defer timer.Close()
	handle := func(message Message) error {
		defer timer.Widen(message.Silence)() // a tool runs, or a person is asked
		return message.Handle(ctx, timer.Alive)
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case message, open := <-messages:
			if !open {
				return nil
			}
			timer.Alive()
			if err := handle(message); err != nil {
				return errors.Join(err, context.Cause(ctx))
			}
		}
	}
}

//migrating:end
