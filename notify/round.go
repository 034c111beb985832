package notify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/unwrap"
	"github.com/seed62658d38/watchdog/session"
)

// storeTime is the longest that one call of the store takes.
const storeTime = watchdog.DefaultRecordTimeout + bounded.Lateness

// maxTaken limits what is remembered of notices that the outbox could not be told of.
const maxTaken = 10_000

// deliver has rounds until nothing is due, or a round delivered nothing, or the receiver wants a rest.
func (s *Sender) deliver(ctx context.Context) (all Delivery, failed error) {
	for ctx.Err() == nil && !s.rests() {
		d, more, err := s.round(ctx)
		all.add(d)
		if failed == nil {
			failed = err
		}
		if !more {
			break
		}
	}
	return all, failed
}

// round claims notices and sends them all at once: one that is slow holds up others for as long as one may take.
func (s *Sender) round(ctx context.Context) (d Delivery, more bool, failed error) {
	notices, err := onStore(ctx, func(ctx context.Context) ([]session.Notice, error) {
		return s.outbox.ClaimNotices(ctx, s.cfg.Parallel, s.claimFor())
	})
	if err != nil {
		if ctx.Err() != nil {
			return d, false, nil
		}
		return d, false, fmt.Errorf("claim notices: %w", err)
	}
	var mu sync.Mutex
	var sends sync.WaitGroup
	for _, n := range notices {
		sends.Go(func() {
			one, err := s.one(ctx, n)
			mu.Lock()
			defer mu.Unlock()
			d.add(one)
			if failed == nil {
				failed = err
			}
		})
	}
	sends.Wait()
	return d, len(notices) >= s.cfg.Parallel && d.Delivered+d.Unwanted > 0, failed
}

// claimFor is longer than a claim, the read, the send and the note of how it ended can take.
func (s *Sender) claimFor() time.Duration { return s.cfg.Timeout + bounded.Lateness + 4*storeTime }

// one delivers a notice that is claimed. A send that has begun goes on when ctx ends.
func (s *Sender) one(ctx context.Context, n session.Notice) (Delivery, error) {
	if s.wasTaken(n.ID) {
		return s.finish(ctx, n, Delivery{})
	}
	m, err := s.read(ctx, n)
	if ctx.Err() != nil {
		return Delivery{}, nil //nolint:nilerr // nothing failed: it is due again when the claim ends
	}
	switch {
	case err != nil:
		return s.delay(ctx, n, pauseAfter(n.Tries), fmt.Errorf("notice %s: %w", n.ID, err))
	case !s.wants(m):
		return s.finish(ctx, n, Delivery{Unwanted: 1})
	}
	ctx = context.WithoutCancel(ctx)
	a := s.post(ctx, m)
	if a.err == nil {
		s.setTaken(n.ID, true)
		return s.finish(ctx, n, Delivery{Delivered: 1})
	}
	s.rest(a.rest)
	a.err = fmt.Errorf("notice %s: %w", n.ID, a.err)
	left := s.timeLeft(n)
	if left <= 0 {
		return s.drop(ctx, n, m, a.err)
	}
	return s.delay(ctx, n, max(min(pauseAfter(n.Tries), left), a.rest), a.err)
}

// timeLeft returns for how long a notice is tried yet. No clock has a say in it: that of the database may have been
// wrong when the notice was put, and this host's may be now. It is a pause more than the config says, because a clock
// that is set forward ends the pause that is under way, and counts it.
func (s *Sender) timeLeft(n session.Notice) time.Duration {
	return s.cfg.KeepFor - max(n.Waited-longestPause, 0)
}

func (s *Sender) read(ctx context.Context, n session.Notice) (message, error) {
	if !isEnd(n) {
		return messageOf(n, nil), nil
	}
	events, err := onStore(ctx, func(ctx context.Context) ([]watchdog.Event, error) { return s.eventsOf(ctx, n) })
	if err != nil {
		return message{}, fmt.Errorf("read its event: %w", err)
	}
	return messageOf(n, events), nil
}

// eventsOf returns the events that say what a notice is about, and from a store that cannot select them those of the
// run. A run can have a million.
func (s *Sender) eventsOf(ctx context.Context, n session.Notice) ([]watchdog.Event, error) {
	selects, ok := unwrap.To[watchdog.TransactionalStore, watchdog.EventStore](s.events)
	if !ok {
		return s.events.Read(ctx, n.AggregateType, n.AggregateID)
	}
	by := watchdog.Selection{AggregateType: n.AggregateType, AggregateID: n.AggregateID, IDs: []string{n.ID}}
	events, err := selects.Select(ctx, by)
	if by.IDs = correctionsOf(events); err != nil || len(by.IDs) == 0 {
		return events, err
	}
	corrections, err := selects.Select(ctx, by)
	return append(events, corrections...), err
}

func (s *Sender) wants(m message) bool {
	return (m.Type != TypeComplete || s.cfg.Completes) && (m.Data.Parent == "" || s.cfg.Layers)
}

// finish removes a notice. If that fails it is claimed again, and sent again only by another sender.
func (s *Sender) finish(ctx context.Context, n session.Notice, d Delivery) (Delivery, error) {
	_, err := onStore(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.outbox.FinishNotices(ctx, n)
	})
	if err != nil {
		return d, fmt.Errorf("notice %s: remove it from the outbox: %w", n.ID, err)
	}
	s.setTaken(n.ID, false)
	return d, nil
}

// delay has a notice tried again later. If that fails it is due again when its claim ends.
func (s *Sender) delay(ctx context.Context, n session.Notice, pause time.Duration, why error) (Delivery, error) {
	_, err := onStore(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.outbox.DelayNotice(ctx, n, pause)
	})
	if err != nil {
		why = fmt.Errorf("%w; and delay it: %w", why, err)
	}
	return Delivery{Delayed: 1}, why
}

func (s *Sender) drop(ctx context.Context, n session.Notice, m message, why error) (Delivery, error) {
	d, err := s.finish(ctx, n, Delivery{Dropped: 1})
	if err == nil {
		s.cfg.Logger.ErrorContext(ctx, "a notice is given up, and nobody is told of it",
			"notice", n.ID, "type", m.Type, "run_id", m.Data.RunID, "created_at", n.CreatedAt, "tries", n.Tries, "error", why)
	}
	return d, err
}

// rest keeps this sender from sending for a while.
func (s *Sender) rest(d time.Duration) {
	if d <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := time.Now().Add(d); until.After(s.restUntil) {
		s.restUntil = until
	}
}

func (s *Sender) rests() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.restUntil)
}

func (s *Sender) wasTaken(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[id]
}

func (s *Sender) setTaken(id string, taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !taken:
		delete(s.taken, id)
	case len(s.taken) < maxTaken:
		s.taken[id] = true
	}
}

// The pauses after a try that failed: the first, and the longest.
const firstPause, longestPause = 5 * time.Second, time.Hour

// pauseAfter returns how long a notice waits that was tried so often: twice as long each time, up to the longest pause,
// and up to a fifth less, so that the notices of one outage do not come back at one instant.
func pauseAfter(tries int) time.Duration {
	pause := firstPause
	for i := 1; i < tries && pause < longestPause; i++ {
		pause *= 2
	}
	pause = min(pause, longestPause)
	return pause - rand.N(pause/5)
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
