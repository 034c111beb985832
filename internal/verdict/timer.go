package verdict

import "time"

// A timer measures one limit: it started at from and may last as long as allowed. The attempts are the trips so far on
// the limit's ladder.
type timer struct {
	limit         Limit
	from, allowed time.Duration
	attempts      int
	hold          HoldID
	pauses        *Pauses // while which it stands still
}

// expiresAt returns the first instant at which more than the allowed time is used.
func (s *timer) expiresAt() time.Duration { return s.pauses.instant(Sum(s.from, Sum(s.allowed, 1))) }

// verdict returns the verdict for an expired timer.
func (s *timer) verdict(limits *Limits, now time.Duration) Verdict {
	v := Verdict{
		Action: Direct, Limit: s.limit, Used: now - s.from - s.pauses.Before(now), Allowed: s.allowed,
		Directive: limits.Ladders.directive(s.limit, s.attempts), Rung: s.attempts + 1,
		Hold: s.hold.Key, HoldSerial: s.hold.Serial, Next: now,
	}
	if v.Directive == DirectCancel {
		v.Action, v.Next = Cancel, Never
	}
	return v
}

// earliest returns the timer that expires first.
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
		return first
	}
	sooner(noProgress(limits, seen))
	sooner(idle(limits, seen))
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

// timer returns the hold's timer without its attempts.
func (h *OpenHold) timer() timer {
	return timer{limit: Hold, from: max(h.Opened, h.Rung.At), allowed: h.Cap, hold: h.HoldID}
}

func noProgress(limits *Limits, seen *Snapshot) timer {
	signs := seen.Signs
	s := timer{limit: NoProgress, allowed: limits.NoProgress, attempts: signs.attempts(signs.OnNoProgress)}
	if limits.FromFirstSign && !signs.Signalled {
		s.allowed = Never
	}
	s.from = max(seen.start(limits), signs.Progress, signs.Released, signs.OnNoProgress.At)
	return s
}

func idle(limits *Limits, seen *Snapshot) timer {
	signs := seen.Signs
	s := timer{limit: Idle, allowed: limits.Idle, attempts: signs.attempts(signs.OnIdle)}
	if limits.FromFirstSign && !signs.Signalled {
		s.allowed = limits.FirstSign
	}
	s.from = max(seen.start(limits), signs.Activity, signs.Released, signs.OnIdle.At)
	return s
}
