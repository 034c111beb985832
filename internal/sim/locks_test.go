package sim_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// locks are the rows, or the leases, that strangers have locked, and those that the database refuses to change. The
// memory calls it with its mutex held.
type locks struct {
	mu    sync.Mutex
	held  map[string]chan struct{} // closed when it is unlocked
	wrong map[string]bool
}

func newLocks() *locks { return &locks{held: map[string]chan struct{}{}, wrong: map[string]bool{}} }

// lock locks, or unlocks.
func (l *locks) lock(id string, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.held[id]
	switch {
	case held && c == nil:
		l.held[id] = make(chan struct{})
	case !held && c != nil:
		close(c)
		delete(l.held, id)
	}
}

func (l *locks) refuse(id string, wrong bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong[id] = wrong
}

func (l *locks) locked(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[id] != nil
}

func (l *locks) refused(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrong[id]
}

// none reports whether nothing is locked.
func (l *locks) none() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held) == 0
}

// stuck reports whether the row cannot be written.
func (l *locks) stuck(id string) bool { return l.locked(id) || l.refused(id) }

func (l *locks) channel(id string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[id]
}

// await waits for a lock as long as a statement does.
func (l *locks) await(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, session.LockWait, session.ErrLocked)
	defer cancel()
	if err := l.awaitFree(ctx, id); err != nil && !errors.Is(context.Cause(ctx), session.ErrLocked) {
		return err
	}
	return nil
}

// awaitFree waits for a lock until ctx ends.
func (l *locks) awaitFree(ctx context.Context, id string) error {
	c := l.channel(id)
	if c == nil {
		return nil
	}
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A health is how well a process could write. Stretches in which it could not, with less than twice a promise between
// them, count as one.
type health struct {
	okSince  time.Time // zero while it cannot write
	badSince time.Time // of the latest stretch
	badUntil time.Time
	longBad  time.Time // when the latest stretch of a promise or more ended
}

// note notes whether the process can write now.
func (h *health) note(able bool, now time.Time) {
	switch {
	case able && h.okSince.IsZero():
		h.okSince, h.badUntil = now, now
		if now.Sub(h.badSince) >= promise {
			h.longBad = now
		}
	case !able && !h.okSince.IsZero():
		h.okSince = time.Time{}
		if now.Sub(h.badUntil) >= 2*promise {
			h.badSince = now
		}
	}
}

// wellSince reports whether the process could write within every stretch of three promises since then, as far as it
// matters now.
func (h *health) wellSince(since, now time.Time) bool {
	if h.okSince.IsZero() && now.Sub(h.badSince) >= promise {
		return false
	}
	return h.longBad.Before(since) || now.Sub(h.longBad) > recovery
}
