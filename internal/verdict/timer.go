package verdict

import "time"

// A timer measures one limit: it started at from and may last as long as allowed. The attempts are the trips so far on
// the limit's ladder.
type timer struct {
	limit         Limit
	from, allowed time.Duration
	since         time.Duration // when the stretch began that the limit is about
	attempts      int
	hold          HoldID
	pauses        *Pauses // while which it stands still
	grace         *Grace  // of a limit of silence
}

// expiresAt returns the first instant at which more than the allowed time is used.
func (s *timer) expiresAt() time.Duration {
	return s.grace.Expires(s.from, s.pauses.instant(Sum(s.from, Sum(s.allowed, 1))))
}

func (s *timer) verdict(limits *Limits, now time.Duration) Verdict {
	v := Verdict{
		Action: Direct, Limit: s.limit, Used: now - s.from - s.pauses.Before(now), Allowed: s.allowed,
		Hold: s.hold.Key, HoldSerial: s.hold.Serial, Since: s.since, Next: now,
	}
	v.Directive, v.Rung, v.Last = limits.Ladders.next(s.limit, s.attempts)
	if v.Directive == DirectCancel {
		v.Action, v.Next = Cancel, Never
	}
	return v
}

func earliest(limits *Limits, seen *Snapshot) timer {
	first := wallClock(limits, seen)
	sooner := func(s timer) {
		if s.expiresAt() < first.expiresAt() {
			first = s
		}
	}
	sooner(safety(limits, seen))
	if seen.Signs == nil {
		return first
	}
	if seen.Signs.Holds.Len() > 0 { // an open hold stops the others
		sooner(hold(seen.Signs))
	} else {
		sooner(noProgress(limits, seen))
	}
	sooner(silence(limits, seen))
	return first
}

func wallClock(limits *Limits, seen *Snapshot) timer {
	allowed := Sum(limits.WallClock, seen.Extended)
	if seen.WallClockSpent {
		allowed = Never
	}
	return timer{limit: WallClock, allowed: allowed, pauses: seen.pauses()}
}

func safety(limits *Limits, seen *Snapshot) timer {
	if seen.SafetySpent {
		return timer{limit: Safety, allowed: Never}
	}
	return timer{limit: Safety, from: seen.Attached, allowed: limits.Safety}
}

// hold returns the timer of the hold that expires first.
func hold(signs *Signs) timer {
	h := signs.Holds.first()
	s := h.timer()
	s.attempts = signs.attempts(h.Rung)
	return s
}

// timer returns the hold's timer without its attempts. After the last rung of its ladder its cap is not exceeded again:
// the stretch that it measures is the hold.
func (h *OpenHold) timer() timer {
	s := timer{limit: Hold, from: max(h.Opened, h.Rung.At), allowed: h.Cap, hold: h.HoldID}
	if h.Rung.Last {
		s.allowed = Never
	}
	return s
}

// silence returns the timer of Idle: the run's own, or the longest that its open holds allow.
func silence(limits *Limits, seen *Snapshot) timer {
	signs := seen.Signs
	if signs.Holds.Len() == 0 {
		return idle(limits, seen)
	}
	s := timer{limit: Idle, allowed: Never}
	if h := signs.Holds.longest(); h != nil {
		s.allowed, s.hold = h.Idle, h.HoldID
	}
	s.since = max(seen.begun(), signs.Activity, signs.HoldsChanged)
	return s.on(signs, signs.OnIdle, s.since)
}

// IdleNow returns how long a command in flight may be silent: as long as the run might without it. It reports
// whether open holds say so.
func IdleNow(limits *Limits, seen *Snapshot) (allowed time.Duration, held bool) {
	switch {
	case seen.Signs == nil:
		return Never, false // nothing heeds signals
	case seen.Signs.Holds.Named() > 0:
		return seen.Signs.Holds.idle(), true
	}
	return idle(limits, seen).allowed, false
}

func noProgress(limits *Limits, seen *Snapshot) timer {
	signs := seen.Signs
	s := timer{limit: NoProgress, allowed: limits.NoProgress}
	if limits.FromFirstSign && !signs.Signalled {
		s.allowed = Never
	}
	s.since = max(seen.start(limits), signs.Progress)
	return s.on(signs, signs.OnNoProgress, max(s.since, signs.HoldsChanged))
}

func idle(limits *Limits, seen *Snapshot) timer {
	signs := seen.Signs
	s := timer{limit: Idle, allowed: limits.Idle}
	if limits.FromFirstSign && !signs.Signalled {
		s.allowed = limits.FirstSign
	}
	s.since = max(seen.start(limits), signs.Activity, signs.HoldsChanged)
	return s.on(signs, signs.OnIdle, s.since)
}

// on returns the timer as its ladder has it, if it would start at that instant: it starts again at each trip. After the
// last rung it does not expire in the same stretch.
func (s timer) on(signs *Signs, ladder Rung, from time.Duration) timer {
	s.attempts, s.from, s.grace = signs.attempts(ladder), max(from, ladder.At), signs.Graces.of(s.limit)
	if ladder.Last && ladder.Since == s.since {
		s.allowed = Never
	}
	return s
}

// A Directive is what a trip asks of the host.
type Directive string

// The directives. Only DirectCancel ends the run.
const (
	DirectWait    Directive = "wait"
	DirectRetry   Directive = "retry"
	DirectUnstick Directive = "unstuck"
	DirectWrapUp  Directive = "wrap_up" // at the reserve, never on a ladder
	DirectCancel  Directive = "cancel"
)

// Ladders list the directives of a limit's trips, in order. If a list is empty, the first trip cancels the run. If it
// ends in DirectWait, that stays its last rung, and no trip cancels the run. After any other end comes a cancel.
type Ladders map[Limit][]Directive

// next returns what the next trip asks for after that many attempts, and the rung that it is on, from 1. It reports
// whether that is the last rung: then nothing follows before the stretch that was measured ends.
func (l Ladders) next(limit Limit, attempts int) (asks Directive, rung int, last bool) {
	ladder := l[limit]
	end := lastRung(ladder)
	if rung = min(attempts+1, end); rung <= len(ladder) {
		return ladder[rung-1], rung, rung == end
	}
	return DirectCancel, rung, true
}

// lastRung returns the number of a ladder's last rung: that of the cancel after it, unless it ends in one or in a wait.
func lastRung(ladder []Directive) int {
	end := len(ladder)
	if endsInWait(ladder) || end > 0 && ladder[end-1] == DirectCancel {
		return end
	}
	return end + 1
}

func endsInWait(ladder []Directive) bool {
	return len(ladder) > 0 && ladder[len(ladder)-1] == DirectWait
}

// heldOn returns the rung of a hold that was opened at that instant and is found open, where it stands on its ladder:
// one that has had its last wait does not trip again.
func (l Ladders) heldOn(rung int, opened time.Duration) Rung {
	stood := l.StoodOn(Hold, rung)
	stood.At = opened
	return stood
}

// StoodOn returns where a limit stands on its ladder that had that rung before the attach: after a last wait nothing
// follows.
func (l Ladders) StoodOn(limit Limit, rung int) Rung {
	ladder := l[limit]
	return Rung{Attempts: rung, Last: endsInWait(ladder) && rung >= len(ladder)}
}
