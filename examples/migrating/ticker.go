package migrating

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/idle"
)

//migrating:before

// A monitor cancels when nothing came for longer than the limit. It looks ten times in each limit.
type monitor struct {
	limit    time.Duration
	waiting  func() bool
	cancel   context.CancelCauseFunc
	last     atomic.Int64 // in Unix nanoseconds
	inFlight atomic.Int64 // calls without a result
	allowed  atomic.Int64 // the silence of these
}

func startMonitor(
	ctx context.Context, limit time.Duration, waiting func() bool, cancel context.CancelCauseFunc,
) (*monitor, error) {
	if limit < 0 {
		return nil, fmt.Errorf("the idle limit is %v; use 0 to switch it off", limit)
	}
	m := &monitor{limit: limit, waiting: waiting, cancel: cancel}
	m.touch()
	if limit > 0 {
		go m.watch(ctx)
	}
	return m, nil
}

func (m *monitor) touch() { m.last.Store(time.Now().UnixNano()) }

func (m *monitor) begin(silence time.Duration) {
	m.allowed.Store(int64(silence))
	m.inFlight.Add(1)
}

// end is that of a call. A result without a call does not count.
func (m *monitor) end() {
	for {
		n := m.inFlight.Load()
		if n == 0 || m.inFlight.CompareAndSwap(n, n-1) {
			return
		}
	}
}

func (m *monitor) watch(ctx context.Context) {
	ticker := time.NewTicker(m.limit / 10)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			m.look()
		}
	}
}

func (m *monitor) look() {
	limit := m.limit
	if m.inFlight.Load() > 0 {
		limit = time.Duration(m.allowed.Load())
	}
	switch silent := time.Duration(time.Now().UnixNano() - m.last.Load()); {
	case limit <= 0 || silent <= limit:
	case m.waiting():
		m.touch()
	default:
		m.cancel(fmt.Errorf("%w: %v", ErrSilent, silent))
	}
}

// TickerBefore begins an agent, and takes what it says until it closes the channel or is silent for too long.
func TickerBefore(ctx context.Context, begin Agent, limit time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	messages, err := begin(ctx)
	if err != nil {
		return err
	}
	waiting := func() bool { return len(messages) > 0 }
	guard, err := startMonitor(ctx, limit, waiting, cancel)
	if err != nil {
		return err
	}
	return Stream(ctx, messages, func(message Message) error {
		guard.touch()
		switch {
		case message.Call != "":
			guard.begin(message.Silence)
		case message.Result != "":
			guard.end()
		default:
			return message.Handle(ctx, nil)
		}
		return nil
	})
}

//migrating:after

// TickerAfter begins an agent, and takes what it says until it closes the channel or is silent for too long.
func TickerAfter(ctx context.Context, begin Agent, limit time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	messages, err := begin(ctx)
	if err != nil {
		return err
	}
	waiting := func() bool { return len(messages) > 0 }
	_, timer, err := idle.New(ctx, idle.Config{Limit: limit, Busy: waiting, Cancel: cancel})
	if err != nil {
		return err
	}
	defer timer.Close()
	return Stream(ctx, messages, func(message Message) error {
		timer.Alive()
		switch {
		case message.Call != "":
			timer.Begin(message.Call, message.Silence)
		case message.Result != "":
			timer.End(message.Result)
		default:
			return message.Handle(ctx, nil)
		}
		return nil
	})
}

//migrating:end
