package watchdoghttp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// ErrSilent is found by errors.Is in every [SilenceError].
var ErrSilent = errors.New("server is silent")

// A SilenceError says that a [Transport] ended an HTTP exchange because the server was silent for too long. It is the
// cause of the request's context. It wraps [ErrSilent], [context.DeadlineExceeded] and [os.ErrDeadlineExceeded], and is
// a [net.Error], as every timeout of this module. It must not be changed.
type SilenceError struct {
	// Host is the host of the request, with the port if there is one. Nothing else of the URL is kept: it can be secret.
	Host string
	// Answered says that the header had come: the body went silent.
	Answered bool
	// Limit is how long the server may be silent, Elapsed how long it was: the sum of the Reads since its last sign of
	// life, where [Transport].Alive let some of them bring none.
	Limit, Elapsed time.Duration
}

// Error says which server was silent, for how long, and when.
func (s *SilenceError) Error() string {
	when := "before it answered"
	if s.Answered {
		when = "in the middle of its answer"
	}
	return fmt.Sprintf("%s was silent for %v %s, and may be for %v; try again, or raise the limit if it needs that long",
		s.Host, s.Elapsed, when, s.Limit)
}

// Unwrap returns [ErrSilent], [context.DeadlineExceeded] and [os.ErrDeadlineExceeded].
func (s *SilenceError) Unwrap() []error {
	return []error{ErrSilent, context.DeadlineExceeded, os.ErrDeadlineExceeded}
}

// Timeout reports true: a silence is a timeout, as [net.Error] and os.IsTimeout have it.
func (s *SilenceError) Timeout() bool { return true }

// Temporary reports true, as Timeout does. It makes the error a [net.Error].
func (s *SilenceError) Temporary() bool { return true }

// What since can be, besides the time of a beginning, and besides a pause (see pausedAfter).
const (
	nobodyWaits int64 = 0
	tripped     int64 = -1
	overNow     int64 = -2
)

// pausedAfter is what since is while nobody waits, where the next wait goes on with one that has lasted that long.
func pausedAfter(waited int64) int64 {
	if waited == 0 {
		return nobodyWaits
	}
	return overNow - waited
}

// paused reports whether nobody waits, and how long the wait has lasted that goes on.
func paused(since int64) (waited int64, ok bool) {
	if since < overNow {
		return overNow - since, true
	}
	return 0, since == nobodyWaits
}

// A silence measures how long somebody has waited. Its one timer is never set while signs of life come: it looks when
// it fires, and then sets itself to when the present wait will be too long. While nobody waits it sleeps, and the next
// wait wakes it.
type silence struct {
	limit    time.Duration
	host     string
	base     time.Time
	since    atomic.Int64 // when the wait began, in nanoseconds since base and never 0; or one of the above
	asleep   atomic.Bool  // nobody will fire; whoever makes it false sets the timer
	timer    *time.Timer
	setFor   atomic.Int64  // when the timer is to ring, as since has it
	grace    verdict.Grace // what it gave when it rang late; of look
	onTrip   func(*SilenceError)
	answered atomic.Bool   // set while nobody waits, so that whoever ends a wait has read what it waited for
	err      *SilenceError // written before since is tripped
}

// watch begins the first wait. The timer exists before it can fire.
func (s *silence) watch(onTrip func(*SilenceError)) {
	if s.limit == watchdog.NoLimit {
		return
	}
	s.onTrip, s.base = onTrip, time.Now()
	s.since.Store(1)
	s.timer = time.AfterFunc(watchdog.NoLimit, s.look)
	s.set(s.limit + 1)
}

// set sets the timer, which nobody else does at that moment.
func (s *silence) set(wait time.Duration) {
	s.setFor.Store(int64(verdict.Sum(time.Duration(s.elapsed()), wait)))
	s.timer.Reset(wait)
}

// elapsed is the time now, as since has it.
func (s *silence) elapsed() int64 { return int64(time.Since(s.base)) + 1 }

// await begins a wait, or goes on with the one that was paused.
func (s *silence) await() {
	if s.limit == watchdog.NoLimit {
		return
	}
	for now := s.elapsed(); ; {
		since := s.since.Load()
		waited, ok := paused(since)
		if !ok {
			return
		}
		if s.since.CompareAndSwap(since, now-waited) {
			s.wake(waited)
			return
		}
	}
}

// wake sets the timer for a wait if it sleeps.
func (s *silence) wake(waited int64) {
	if s.asleep.Load() && s.asleep.CompareAndSwap(true, false) {
		s.set(s.limit - time.Duration(waited) + 1)
	}
}

// heard ends the wait, and reports whether it was not too long.
func (s *silence) heard() bool {
	for {
		since := s.since.Load()
		if since <= nobodyWaits || s.since.CompareAndSwap(since, nobodyWaits) {
			return since != tripped
		}
	}
}

// pause ends the wait so that the next one goes on with it, and reports whether it was not too long.
func (s *silence) pause() bool {
	for {
		since := s.since.Load()
		if since <= nobodyWaits || s.since.CompareAndSwap(since, pausedAfter(s.elapsed()-since)) {
			return since != tripped
		}
	}
}

// renew begins the wait anew if there is one, or has the next wait be a new one.
func (s *silence) renew() {
	for {
		since, next := s.since.Load(), nobodyWaits
		switch {
		case since > nobodyWaits:
			next = s.elapsed()
		case since >= overNow:
			return
		}
		if s.since.CompareAndSwap(since, next) {
			return
		}
	}
}

// stop is the end of all waiting. What has tripped stays so.
func (s *silence) stop() {
	for {
		since := s.since.Load()
		if since == tripped || s.since.CompareAndSwap(since, overNow) {
			break
		}
	}
	if s.timer != nil {
		s.timer.Stop()
	}
}

// look is what the timer does.
func (s *silence) look() {
	for setFor, rang := s.setFor.Load(), s.elapsed(); ; {
		since := s.since.Load()
		switch {
		case since == tripped || since == overNow:
			return
		case since <= nobodyWaits:
			if s.sleep() {
				return
			}
		case s.wait(since, setFor, rang):
			return
		}
	}
}

// sleep lets the timer rest, unless somebody began to wait meanwhile and did not see that.
func (s *silence) sleep() bool {
	s.asleep.Store(true)
	return s.since.Load() <= nobodyWaits || !s.asleep.CompareAndSwap(true, false)
}

// wait sets the timer to the end of a wait, or ends the exchange if that is past. The timer was set for one instant and
// rang at another. It reports false where the wait was over by then.
func (s *silence) wait(since, setFor, rang int64) bool {
	last, now := time.Duration(since), time.Duration(s.elapsed())
	s.grace.Rang(time.Duration(setFor), time.Duration(rang), s.limit, last)
	if trips := s.grace.Expires(last, verdict.Sum(last, s.limit+1)); now < trips {
		s.set(trips - now)
		return true
	}
	quiet := now - last
	s.err = &SilenceError{Host: s.host, Answered: s.answered.Load(), Limit: s.limit, Elapsed: quiet}
	if !s.since.CompareAndSwap(since, tripped) {
		return false
	}
	s.onTrip(s.err)
	return true
}
