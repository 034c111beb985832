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
}

// expiresAt returns the first instant at which more than the allowed time is used.
func (s *timer) expiresAt() time.Duration { return s.pauses.instant(Sum(s.from, Sum(s.allowed, 1))) }

// verdict returns the verdict for an expired timer.
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
	} else {
		sooner(noProgress(limits, seen))
	}
	if s := silence(limits, seen); !seen.Asking || s.trip(limits) != seen.Asked {
		sooner(s)
	}
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

// silence returns the timer of Idle: the run's own, or that of its open holds.
func silence(limits *Limits, seen *Snapshot) timer {
	if seen.Signs.Holds.Len() > 0 {
		return holdIdle(seen)
	}
	return idle(limits, seen)
}

// holdIdle returns the timer of the silence while holds are open: the longest that they allow.
func holdIdle(seen *Snapshot) timer {
	signs := seen.Signs
	s := timer{limit: Idle, allowed: Never}
	if h := signs.Holds.longest(); h != nil {
		s.allowed, s.hold = h.Idle, h.HoldID
	}
	s.since = max(seen.begun(), signs.Activity, signs.HoldsChanged)
	return s.on(signs, signs.OnIdle, s.since)
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
	s.attempts, s.from = signs.attempts(ladder), max(from, ladder.At)
	if ladder.Last && ladder.Since == s.since {
		s.allowed = Never
	}
	return s
}

// trip returns what would be the timer's next trip, of a timer of Idle.
func (s *timer) trip(limits *Limits) IdleTrip {
	_, rung, _ := limits.Ladders.next(Idle, s.attempts)
	return IdleTrip{s.since, rung}
}
