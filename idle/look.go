package idle

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// afterLimit is the first instant at which more than the limit is used.
func afterLimit(limit time.Duration) time.Duration { return verdict.Sum(limit, 1) }

// look is what the alarm does.
func (t *Timer) look() {
	if !t.rang(time.Since(t.base)) {
		return
	}
	for next := t.judge(); next != nil; next = t.judge() {
		next()
	}
}

// rang notes that the alarm rang, and reports whether to look: not if that is under way.
func (t *Timer) rang(now time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.looking {
		return false
	}
	t.looking = true
	limits, seen := t.seen(now)
	seen.Rang(&limits, t.setFor, now)
	t.graces = seen.Signs.Graces
	return true
}

// seen is what is known of the silence. The caller holds mu.
func (t *Timer) seen(now time.Duration) (limits verdict.Limits, seen verdict.Snapshot) {
	last, _ := t.signs.Last(now)
	limits = verdict.Off()
	limits.Idle = t.limit
	return limits, verdict.Snapshot{Signs: &verdict.Signs{Activity: last, Graces: t.graces}}
}

// set sets the alarm. The caller holds mu.
func (t *Timer) set(wait time.Duration) {
	t.setFor = verdict.Sum(time.Since(t.base), wait)
	t.alarm.Reset(wait)
}

// judge returns what to do about the silence. Where that is nothing for now, it sets the alarm and returns nil.
func (t *Timer) judge() (next func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.inner.Err() != nil {
		return nil // looking stays true: nothing is looked at any more
	}
	now := time.Since(t.base)
	mark := t.signs.Mark()
	limits, seen := t.seen(now)
	v := verdict.Judge(limits, seen, now)
	switch {
	case v.Action != verdict.Cancel:
		return t.rest(verdict.Until(v.Next, now))
	case t.told == mark:
		return t.rest(afterLimit(t.limit)) // a sign that comes before that is in time then
	case t.cfg.Busy != nil && t.asked != mark && !t.asking.Load():
		t.asked = mark
		return t.ask
	case t.cfg.Notify != nil:
		t.told = mark
		stop := t.newStop(v)
		return func() { t.call("Notify", func() { t.cfg.Notify(stop) }) }
	}
	return func() { t.trip(t.newStop(v)) }
}

// rest sets the alarm. The caller holds mu.
func (t *Timer) rest(wait time.Duration) (none func()) {
	t.looking = false
	if wait != verdict.Never {
		t.set(wait)
	}
	return nil
}

func (t *Timer) newStop(v verdict.Verdict) *watchdog.Stop {
	stop := &watchdog.Stop{
		Code: watchdog.IdleExceeded, StartedAt: t.base.UTC().Truncate(time.Microsecond),
		FiredAt: time.Now().UTC().Truncate(time.Microsecond), Elapsed: v.Used, Budget: v.Allowed, Rung: v.Rung,
	}
	if t.run != nil {
		stop.Note = t.run.LastNote()
	}
	return stop
}

// trip ends the work. The timer's own context comes first: what Cancel waits for may be what is done in that.
func (t *Timer) trip(stop *watchdog.Stop) {
	t.stop.Store(stop)
	t.cancel(stop)
	if _, stopped := t.Stopped(); stopped && t.cfg.Cancel != nil {
		t.call("Cancel", func() { t.cfg.Cancel(stop) })
	}
}

// ask asks Busy.
func (t *Timer) ask() {
	wait, cancel := context.WithTimeout(context.Background(), BusyTimeout)
	defer cancel()
	t.asking.Store(true)
	yes, err := bounded.Do(wait, func() (bool, error) {
		defer t.asking.Store(false)
		return t.cfg.Busy(), nil
	})
	if err != nil {
		handle.LoggerOf(t.inner).Error("idle guard counts a busy callback as not busy",
			"timeout", BusyTimeout, "error", err)
	}
	if yes && err == nil {
		t.Alive()
	}
}

func (t *Timer) call(name string, f func()) {
	_, err := bounded.Do(context.Background(), func() (struct{}, error) { f(); return struct{}{}, nil })
	if err != nil {
		handle.LoggerOf(t.inner).Error("a callback of the host's failed", "callback", name, "error", err)
	}
}
