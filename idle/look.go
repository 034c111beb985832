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

// An action is what a look has to do next.
type action int

const (
	rest   action = iota // the alarm is set, or nothing is left to look at
	ask                  // Busy
	notify               // Notify
	end                  // the context
)

// look is what the alarm does.
func (t *Timer) look() {
	t.mu.Lock()
	underWay := t.looking
	t.looking = true
	t.mu.Unlock()
	if underWay {
		return
	}
	for {
		switch next, stop := t.judge(); next {
		case rest:
			return
		case ask:
			if t.busy() {
				t.Alive()
			}
		case notify:
			t.call("Notify", func() { t.cfg.Notify(stop) })
		case end:
			t.trip(stop)
			return
		}
	}
}

// judge says what to do about the silence, and sets the alarm where that is nothing for now.
func (t *Timer) judge() (action, *watchdog.Stop) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.inner.Err() != nil {
		return rest, nil // looking stays true: nothing is looked at any more
	}
	now := time.Since(t.base)
	mark := t.signs.Mark()
	last, _ := t.signs.Last(now)
	v := verdict.Judge(limitsOf(t.limit), verdict.Snapshot{Signs: &verdict.Signs{Activity: last}}, now)
	switch {
	case v.Action != verdict.Cancel:
		return t.rest(verdict.Until(v.Next, now))
	case t.told == mark:
		return t.rest(afterLimit(t.limit)) // a sign that comes before that is in time then
	case t.cfg.Busy != nil && t.asked != mark && !t.asking.Load():
		t.asked = mark
		return ask, nil
	case t.cfg.Notify != nil:
		t.told = mark
		return notify, t.newStop(v)
	}
	return end, t.newStop(v)
}

// rest sets the alarm. The caller holds mu.
func (t *Timer) rest(wait time.Duration) (action, *watchdog.Stop) {
	t.looking = false
	if wait != verdict.Never {
		t.alarm.Reset(wait)
	}
	return rest, nil
}

// limitsOf are limits with no other than that of silence.
func limitsOf(silence time.Duration) verdict.Limits {
	limits := verdict.Off()
	limits.Idle = silence
	return limits
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

// busy asks Busy.
func (t *Timer) busy() (yes bool) {
	wait, cancel := context.WithTimeout(context.Background(), watchdog.BusyTimeout)
	defer cancel()
	t.asking.Store(true)
	yes, err := bounded.Do(wait, func() (bool, error) {
		defer t.asking.Store(false)
		return t.cfg.Busy(), nil
	})
	if err != nil {
		handle.LoggerOf(t.inner).Error("idle guard counts a busy callback as not busy",
			"timeout", watchdog.BusyTimeout, "error", err)
	}
	return yes && err == nil
}

// call calls the host.
func (t *Timer) call(name string, f func()) {
	_, err := bounded.Do(context.Background(), func() (struct{}, error) { f(); return struct{}{}, nil })
	if err != nil {
		handle.LoggerOf(t.inner).Error("a callback of the host's failed", "callback", name, "error", err)
	}
}
