package migrating

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
)

//migrating:before

// A boundaryCheck is asked between two phases how long nothing has come.
type boundaryCheck struct {
	limit   time.Duration
	waiting func() bool
	mu      sync.Mutex // guards last
	last    time.Time
}

func newCheck(limit time.Duration, waiting func() bool) (*boundaryCheck, error) {
	if limit < 0 {
		return nil, fmt.Errorf("the idle limit is %v; use 0 to switch it off", limit)
	}
	return &boundaryCheck{limit: limit, waiting: waiting, last: time.Now()}, nil
}

func (c *boundaryCheck) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
}

// exceeded returns an error after a silence that was longer than allowed.
func (c *boundaryCheck) exceeded(allowed time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	silent := time.Since(c.last)
	c.last = time.Now()
	if c.limit == 0 || allowed == 0 || silent <= max(c.limit, allowed) || c.waiting() {
		return nil
	}
	return fmt.Errorf("%w: %v", ErrSilent, silent)
}

// PolledBefore runs the phases that come until there are no more or one was silent for too long.
func PolledBefore(ctx context.Context, phases <-chan Message, limit time.Duration) error {
	waiting := func() bool { return len(phases) > 0 }
	check, err := newCheck(limit, waiting)
	if err != nil {
		return err
	}
	run := func(step Message) error {
		err := step.Handle(ctx, check.touch)
		return errors.Join(err, check.exceeded(step.Silence))
	}
	for {
		step, open, err := receive(ctx, phases)
		if err != nil || !open {
			return err
		}
		if err := check.exceeded(limit); err != nil {
			return err
		}
		if err := run(step); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

//migrating:after

// PolledAfter runs the phases that come until there are no more or one was silent for too long.
func PolledAfter(ctx context.Context, phases <-chan Message, limit time.Duration) error {
	waiting := func() bool { return len(phases) > 0 }
	ctx, timer, err := idle.New(ctx, idle.Config{Limit: cmp.Or(limit, watchdog.NoLimit), Busy: waiting})
	if err != nil {
		return err
	}
	defer timer.Close()
	run := func(step Message) error {
		defer timer.Widen(step.Silence)()
		return step.Handle(ctx, timer.Alive)
	}
	for {
		step, open, err := idle.Recv(ctx, phases)
		if err != nil || !open {
			return err
		}
		if err := run(step); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

//migrating:end
