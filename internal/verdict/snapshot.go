package verdict

import (
	"slices"
	"time"
)

// A Snapshot is what is known about a run at one moment. Instants that have not come are 0.
type Snapshot struct {
	// Attached is when this process began to watch the run.
	Attached time.Duration
	// Extended is how much time was added to Limits.WallClock in this window.
	Extended time.Duration
	// Warned is how many of Limits.WarnAt were given for the current wall-clock limit.
	Warned int
	// WallClockSpent and SafetySpent say that an observe-only run has exceeded the limit.
	WallClockSpent, SafetySpent bool
	// Signs are what the run's signals and holds said. They are nil if no limit depends on them.
	Signs *Signs
}

// Signs are what is known from signals and holds.
type Signs struct {
	// Signalled says whether there was a signal since the attach. FirstSignal is when the first one was.
	Signalled   bool
	FirstSignal time.Duration
	// Progressed says whether there was progress.
	Progressed bool
	// Activity and Progress are when the last of each was. Progress is activity too.
	Activity, Progress time.Duration
	// Holds are the open holds. Released is when the last open hold was closed.
	Holds    []OpenHold
	Released time.Duration
	// OnIdle and OnNoProgress are the positions of the two limits on their ladders.
	OnIdle, OnNoProgress Rung
}

// An OpenHold is a stretch in which silence is expected.
type OpenHold struct {
	Key    string
	Opened time.Duration
	Cap    time.Duration
	Rung   Rung
}

// A Rung is the position of a limit on its ladder: how many trips it had since the last progress, and when the last one
// was.
type Rung struct {
	Attempts int
	At       time.Duration
}

// start returns when Idle and NoProgress start, before later signals and holds are considered.
func (s Snapshot) start(limits Limits) time.Duration {
	if limits.FromFirstSign && s.Signs.Signalled {
		return s.Signs.FirstSignal
	}
	return s.Attached
}

// Apply records what a verdict at the instant now gave: a warning, a step on a ladder, or a Cancel of an observe-only
// run. A limit with a ladder starts again from zero.
func (s *Snapshot) Apply(v Verdict, now time.Duration) {
	switch {
	case v.Action == Warn:
		s.Warned++
	case v.Limit == WallClock:
		s.WallClockSpent = true
	case v.Limit == Safety:
		s.SafetySpent = true
	default:
		s.Signs.setRung(v.Limit, v.Hold, Rung{v.Rung, now})
	}
}

// Signal records a sign of life, and of progress if progress is true.
func (s *Signs) Signal(progress bool, now time.Duration) {
	if !s.Signalled {
		s.Signalled, s.FirstSignal = true, now
	}
	s.Activity = max(s.Activity, now)
	if progress {
		s.Progressed, s.Progress = true, max(s.Progress, now)
	}
}

// Open records a hold.
func (s *Signs) Open(key string, limit, now time.Duration) {
	s.Holds = append(s.Holds, OpenHold{Key: key, Opened: now, Cap: limit})
}

// Held reports whether the hold is open.
func (s *Signs) Held(key string) bool { return s.index(key) >= 0 }

// Close removes a hold, and reports whether it was open.
func (s *Signs) Close(key string, now time.Duration) bool {
	i := s.index(key)
	if i < 0 {
		return false
	}
	s.Holds = slices.Delete(s.Holds, i, i+1)
	if len(s.Holds) == 0 {
		s.Released = now
	}
	return true
}

func (s *Signs) index(key string) int {
	return slices.IndexFunc(s.Holds, func(h OpenHold) bool { return h.Key == key })
}

func (s *Signs) setRung(limit Limit, hold string, r Rung) {
	switch limit {
	case Idle:
		s.OnIdle = r
	case NoProgress:
		s.OnNoProgress = r
	default:
		s.Holds[s.index(hold)].Rung = r
	}
}

// attempts returns the trips on a ladder since the last progress. Progress moves every ladder back to its first rung.
func (s *Signs) attempts(r Rung) int {
	if s.Progressed && s.Progress >= r.At {
		return 0
	}
	return r.Attempts
}
