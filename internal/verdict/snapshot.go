package verdict

import (
	"slices"
	"time"
)

// A Snapshot is what is known of a run at one look. Instants that have not come are 0.
type Snapshot struct {
	// Attached is when this process began to watch.
	Attached time.Duration
	// Extended is how much time the window was given beyond Limits.WallClock.
	Extended time.Duration
	// Warned is how many of Limits.WarnAt were given for the wall-clock limit as it is now.
	Warned int
	// WallClockSpent and SafetySpent tell that the limit was exceeded by a run that is only observed.
	WallClockSpent, SafetySpent bool
	// Signs are what the run's signals and holds said; nil where it has no limit that heeds them.
	Signs *Signs
}

// Signs are what is known from signals and holds.
type Signs struct {
	// Signalled tells whether there was any signal since the attach, and FirstSignal when the first was.
	Signalled   bool
	FirstSignal time.Duration
	// Activity and Progress are when the last of each was. Progress is activity too.
	Activity, Progress time.Duration
	// Holds are those that are open; Released is when the last one was closed that had no other beside it.
	Holds    []OpenHold
	Released time.Duration
	// OnIdle and OnNoProgress are where the two stand on their ladders.
	OnIdle, OnNoProgress Rung
}

// An OpenHold is a stretch in which silence is expected.
type OpenHold struct {
	Key    string
	Opened time.Duration
	Cap    time.Duration
	Rung   Rung
}

// A Rung is where a limit stands on its ladder: how many trips it had since the last progress, and when the last one was.
type Rung struct {
	Attempts int
	At       time.Duration
}

// begun is when idle and no progress begin, as far as no signal says otherwise.
func (s Snapshot) begun(limits Limits) time.Duration {
	if limits.FromFirstSign && s.Signs.Signalled {
		return s.Signs.FirstSignal
	}
	return s.Attached
}

// Apply notes what a verdict of this instant gave: a warning, a step on a ladder, or a Cancel of a run that is only
// observed. What is measured by a ladder's limit begins again.
func (s *Snapshot) Apply(v Verdict, now time.Duration) {
	switch {
	case v.Action == Warn:
		s.Warned++
	case v.Limit == WallClock:
		s.WallClockSpent = true
	case v.Limit == Safety:
		s.SafetySpent = true
	default:
		s.Signs.rung(v.Limit, v.Hold, Rung{v.Rung, now})
	}
}

// Signal notes a sign of life, and of progress where it is one.
func (s *Signs) Signal(progress bool, now time.Duration) {
	if !s.Signalled {
		s.Signalled, s.FirstSignal = true, now
	}
	s.Activity = max(s.Activity, now)
	if progress {
		s.Progress = max(s.Progress, now)
	}
}

// Open notes a hold.
func (s *Signs) Open(key string, limit, now time.Duration) {
	s.Holds = append(s.Holds, OpenHold{Key: key, Opened: now, Cap: limit})
}

// Held reports whether a hold is open.
func (s *Signs) Held(key string) bool { return s.place(key) >= 0 }

// Close removes a hold, and reports whether it was open.
func (s *Signs) Close(key string, now time.Duration) bool {
	i := s.place(key)
	if i < 0 {
		return false
	}
	s.Holds = slices.Delete(s.Holds, i, i+1)
	if len(s.Holds) == 0 {
		s.Released = now
	}
	return true
}

func (s *Signs) place(key string) int {
	return slices.IndexFunc(s.Holds, func(h OpenHold) bool { return h.Key == key })
}

func (s *Signs) rung(limit Limit, hold string, r Rung) {
	switch limit {
	case Idle:
		s.OnIdle = r
	case NoProgress:
		s.OnNoProgress = r
	default:
		s.Holds[s.place(hold)].Rung = r
	}
}

// attempts are the trips on a ladder since the last progress, which puts every ladder back to its first rung.
func (s *Signs) attempts(r Rung) int {
	if s.Progress >= r.At {
		return 0
	}
	return r.Attempts
}
