package verdict

import "time"

// A stretch is what one limit measures: it began at from and may last as long as allowed. The attempts are the trips it
// has had on its ladder.
type stretch struct {
	limit         Limit
	from, allowed time.Duration
	attempts      int
	hold          string
}

// exceededAt is the first instant at which more than what is allowed was used.
func (s stretch) exceededAt() time.Duration { return Sum(s.from, Sum(s.allowed, 1)) }

// exceeded is the verdict of a stretch that is exceeded.
func (s stretch) exceeded(limits Limits, now time.Duration) Verdict {
	v := Verdict{
		Action: Direct, Limit: s.limit, Used: now - s.from, Allowed: s.allowed,
		Directive: limits.Ladders.rung(s.limit, s.attempts), Rung: s.attempts + 1, Hold: s.hold, Next: now,
	}
	if v.Directive == DirectCancel {
		v.Action, v.Next = Cancel, Never
	}
	return v
}

// earliest returns the stretch that is exceeded first in time.
func earliest(limits Limits, seen Snapshot) stretch {
	first := wallClock(limits, seen)
	sooner := func(s stretch) {
		if s.exceededAt() < first.exceededAt() {
			first = s
		}
	}
	sooner(safety(limits, seen))
	if seen.Signs == nil {
		return first
	}
	for _, h := range seen.Signs.Holds {
		sooner(hold(h, seen.Signs))
	}
	if len(seen.Signs.Holds) == 0 { // while one is open, silence is expected
		sooner(noProgress(limits, seen))
		sooner(idle(limits, seen))
	}
	return first
}

func wallClock(limits Limits, seen Snapshot) stretch {
	allowed := Sum(limits.WallClock, seen.Extended)
	if seen.WallClockSpent {
		allowed = Never
	}
	return stretch{limit: WallClock, allowed: allowed}
}

func safety(limits Limits, seen Snapshot) stretch {
	if seen.SafetySpent {
		return stretch{limit: Safety, allowed: Never}
	}
	return stretch{limit: Safety, from: seen.Attached, allowed: limits.Safety}
}

func hold(h OpenHold, signs *Signs) stretch {
	return stretch{limit: Hold, from: max(h.Opened, h.Rung.At), allowed: h.Cap, attempts: signs.attempts(h.Rung), hold: h.Key}
}

func noProgress(limits Limits, seen Snapshot) stretch {
	signs := seen.Signs
	s := stretch{limit: NoProgress, allowed: limits.NoProgress, attempts: signs.attempts(signs.OnNoProgress)}
	if limits.FromFirstSign && !signs.Signalled {
		s.allowed = Never
	}
	s.from = max(seen.begun(limits), signs.Progress, signs.Released, signs.OnNoProgress.At)
	return s
}

func idle(limits Limits, seen Snapshot) stretch {
	signs := seen.Signs
	s := stretch{limit: Idle, allowed: limits.Idle, attempts: signs.attempts(signs.OnIdle)}
	if limits.FromFirstSign && !signs.Signalled {
		s.allowed = limits.FirstSign
	}
	s.from = max(seen.begun(limits), signs.Activity, signs.Released, signs.OnIdle.At)
	return s
}
