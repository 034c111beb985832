package verdict

import "time"

// A Snapshot is what is known about a run at one moment. Instants that have not come are 0.
type Snapshot struct {
	// Attached is when this process began to attach to the run, and Begun when it was done, from which on the host can
	// signal: what the store takes is no silence of the run.
	Attached, Begun time.Duration
	// Extended is how much time was added to Limits.WallClock in this window.
	Extended time.Duration
	// Warned is how many of Limits.WarnAt were given for the current wall-clock limit.
	Warned int
	// Wrapped says that the host was asked to wrap up under the current wall-clock limit.
	Wrapped bool
	// WallClockSpent and SafetySpent say that an observe-only run has exceeded the limit.
	WallClockSpent, SafetySpent bool
	// Signs are what the run's signals and holds said. They are nil if no limit depends on them.
	Signs *Signs
	// Spend is what the run used up besides time, nil if nothing was counted.
	Spend *Spend
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
	// Holds are the open holds, nil for none. HoldsChanged is when the last one was opened or closed: both are life.
	Holds        *Holds
	HoldsChanged time.Duration
	// Pauses are the stretches that the wall clock does not count.
	Pauses Pauses
	// OnIdle and OnNoProgress are the positions of the two limits on their ladders.
	OnIdle, OnNoProgress Rung
	// Graces are what late rings gave, nil for none.
	Graces *Graces
}

// A Rung is the position of a limit on its ladder: which rung the last trip since the last progress was on, and when
// that was. Last says that it was the last rung, of a stretch that began at the instant Since.
type Rung struct {
	Attempts int
	At       time.Duration
	Last     bool
	Since    time.Duration
}

// start returns when Idle and NoProgress start, before later signals and holds are considered.
func (s *Snapshot) start(limits *Limits) time.Duration {
	if limits.FromFirstSign && s.Signs.Signalled {
		return s.Signs.FirstSignal
	}
	return s.begun()
}

// KnownPauses returns the pauses as they are known now.
func (s *Snapshot) KnownPauses() *Pauses {
	if s.Signs == nil || len(s.Signs.Pauses.all) == 0 {
		return &Pauses{}
	}
	return s.Signs.Pauses.With(nil)
}

func (s *Snapshot) begun() time.Duration { return max(s.Attached, s.Begun) }

// Apply records what a verdict at the instant now gave: a warning, a step on a ladder, or a Cancel of an observe-only
// run. A limit with a ladder starts again from zero.
func (s *Snapshot) Apply(v Verdict, now time.Duration) {
	switch {
	case v.Limit.counted():
		s.Spend.apply(v, now)
	case v.Action == Warn:
		s.Warned++
	case v.Directive == DirectWrapUp:
		s.Wrapped = true
	case v.Limit == WallClock:
		s.WallClockSpent = true
	case v.Limit == Safety:
		s.SafetySpent = true
	default:
		s.Signs.setRung(v.Limit, HoldID{v.Hold, v.HoldSerial}, Rung{v.Rung, now, v.Last, v.Since})
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
func (s *Signs) Open(id HoldID, limits HoldLimits, now time.Duration) {
	if s.Holds == nil {
		s.Holds = &Holds{byID: map[HoldID]*OpenHold{}}
	}
	s.Holds.add(id, limits, now)
	s.HoldsChanged = max(s.HoldsChanged, now)
}

// TakeOver records that an open hold has a new owner, who knows it by another ID and allows it that silence.
func (s *Signs) TakeOver(id, as HoldID, idle, now time.Duration) {
	if open := s.Holds.Find(id); open != nil {
		delete(s.Holds.byID, id)
		open.HoldID, open.Idle = as, idle
		s.Holds.byID[as] = open
		s.Holds.place(open)
	}
	s.HoldsChanged = max(s.HoldsChanged, now)
}

// Held reports whether the hold is open.
func (s *Signs) Held(id HoldID) bool { return s.Holds.Find(id) != nil }

// Close removes a hold, and reports whether it was open.
func (s *Signs) Close(id HoldID, now time.Duration) bool {
	open := s.Holds.Find(id)
	if open == nil {
		return false
	}
	s.Holds.remove(open)
	s.HoldsChanged = max(s.HoldsChanged, now)
	if s.Holds.Len() == 0 && s.Holds.large() {
		s.Holds = nil
	}
	return true
}

// CloseAll removes every hold.
func (s *Signs) CloseAll(now time.Duration) { s.Holds, s.HoldsChanged = nil, max(s.HoldsChanged, now) }

func (s *Signs) setRung(limit Limit, hold HoldID, r Rung) {
	switch limit {
	case Idle:
		s.OnIdle = r
	case NoProgress:
		s.OnNoProgress = r
	default:
		s.Holds.setRung(hold, r)
	}
}

// attempts returns the trips on a ladder since the last progress. Progress moves every ladder back to its first rung.
func (s *Signs) attempts(r Rung) int {
	if s.Progressed && s.Progress >= r.At {
		return 0
	}
	return r.Attempts
}

// A SignalKind is a kind of [Signal].
type SignalKind string

// The kinds of signal.
const (
	SignalAttached SignalKind = "attached"
	SignalExtend   SignalKind = "extend"
	SignalActivity SignalKind = "activity"
	SignalProgress SignalKind = "progress"
	SignalHold     SignalKind = "hold"
	SignalRelease  SignalKind = "release"
	SignalHeld     SignalKind = "held"
	SignalTakeOver SignalKind = "take_over"
	SignalPause    SignalKind = "pause"
	SignalUnpause  SignalKind = "unpause"
	SignalRung     SignalKind = "rung"
)

// A Signal is one thing that the decision heeds, at an instant of the window. Key and Serial are the ID of a hold.
// Length is the cap of a hold, or the length of an extension. A pause counts from From on for at most Length, and until
// From of the unpause with its key; a hold that was held before was opened then. Rung is where a hold, or the limit
// Key, stands on its ladder at an attach. Idle is the silence that a hold allows, 0 for any. A hold that is taken over
// has the Serial 0 from then on.
type Signal struct {
	Kind   SignalKind
	At     time.Duration
	Key    string
	Serial int
	Length time.Duration
	From   time.Duration
	Rung   int
	Idle   time.Duration
}

// Take notes a signal: the one place that says what each does to what is known of a run.
func (s *Snapshot) Take(limits *Limits, signal Signal) {
	switch signal.Kind {
	case SignalAttached:
		s.Begun = signal.At
	case SignalActivity, SignalProgress:
		s.Signs.Signal(signal.Kind == SignalProgress, signal.At)
	case SignalHold:
		s.Signs.Open(signal.hold(), signal.limits(), signal.At)
		s.Signs.Holds.setRung(signal.hold(), Rung{Attempts: signal.Rung, At: signal.At})
	case SignalHeld: // another process opened it, maybe by a clock that is ahead: that is no life of this one
		changed := s.Signs.HoldsChanged
		s.Signs.Open(signal.hold(), signal.limits(), signal.From)
		s.Signs.HoldsChanged = changed
		s.Signs.Holds.setRung(signal.hold(), limits.Ladders.heldOn(signal.Rung, signal.From))
	case SignalTakeOver:
		s.Signs.TakeOver(signal.hold(), HoldID{Key: signal.Key}, signal.Idle, signal.At)
	case SignalRelease:
		s.Signs.Close(signal.hold(), signal.At)
	case SignalExtend:
		s.Extended, s.Warned, s.Wrapped = Sum(s.Extended, signal.Length), 0, false
	case SignalPause:
		s.Signs.Pauses.Set(Pause{ID: signal.Key, Opened: signal.From, Cap: signal.Length})
	case SignalUnpause:
		s.Signs.Pauses.Set(Pause{ID: signal.Key, Released: signal.From, Closed: true})
	case SignalRung:
		s.Signs.setRung(Limit(signal.Key), HoldID{}, Rung{Attempts: signal.Rung, At: signal.At})
	}
}

func (s Signal) hold() HoldID { return HoldID{s.Key, s.Serial} }

func (s Signal) limits() HoldLimits { return HoldLimits{Cap: s.Length, Idle: s.Idle} }
