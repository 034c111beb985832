package verdict

import "time"

// A SignalKind is a kind of [Signal]. Its text is that of the recorded trace.
type SignalKind string

// The kinds of signal.
const (
	SignalAttach   SignalKind = "attach"
	SignalAttached SignalKind = "attached"
	SignalExtend   SignalKind = "extend"
	SignalEnd      SignalKind = "end"
	SignalActivity SignalKind = "activity"
	SignalProgress SignalKind = "progress"
	SignalHold     SignalKind = "hold"
	SignalRelease  SignalKind = "release"
	SignalHeld     SignalKind = "held"
	SignalTakeOver SignalKind = "take_over"
	SignalPause    SignalKind = "pause"
	SignalUnpause  SignalKind = "unpause"
	SignalRung     SignalKind = "rung"
	SignalAdmit    SignalKind = "admit"
	SignalSettle   SignalKind = "settle"
	SignalVoid     SignalKind = "void"
	SignalSpent    SignalKind = "spent"
	SignalLoop     SignalKind = "loop"
	SignalNotBusy  SignalKind = "not_busy"
	// SignalIncomplete is that Complete was not recorded, which was called at From.
	SignalIncomplete SignalKind = "incomplete"
)

// A Signal is one thing that the decision heeds, at an instant of the window. Key and Serial are the ID of a hold.
// Length is the cap of a hold, the length of an extension or, of an attach, how much the window was extended before;
// Warned how many warnings it had, and Wrapped whether the host was asked to wrap up. A pause counts from From on for
// at most Length, and until From of the unpause with its key; a hold that was held before was opened then. Rung is
// where a hold, or the limit Key, stands on its ladder at an attach. Idle is the silence that a hold allows, 0 for any.
//
// An admission, its settling and its void have one Serial, and the first two the Use; of an admission that was refused
// nothing comes after. What was spent before an attach, or by others, is the Count of the limit that Of names; More is
// what that was given, in an extension or before an attach. A loop has come as often as Count says; its Key is its
// pattern, and its Rung 1 if it is another one than the last.
type Signal struct {
	Kind    SignalKind
	At      time.Duration
	Key     string
	Serial  int
	Length  time.Duration
	Warned  int
	Wrapped bool
	From    time.Duration
	Rung    int
	Idle    time.Duration
	Use     Use
	Refused bool
	Of      CountID
	Count   int64
	More    int64
}

// Take notes a signal: the one place that says what each does to what is known of a run. What it does not name does
// nothing, such as an end.
func (s *Snapshot) Take(limits *Limits, signal Signal) {
	switch signal.Kind {
	case SignalAttach, SignalAttached:
		s.attach(signal)
	case SignalActivity, SignalProgress:
		s.Signs.Signal(signal.Kind == SignalProgress, signal.At)
	case SignalHold:
		s.Signs.Open(signal.hold(), signal.limits(), signal.At)
		s.Signs.Holds.setRung(signal.hold(), Rung{Attempts: signal.Rung, At: signal.At})
	case SignalHeld:
		s.Signs.Open(signal.hold(), signal.limits(), signal.From)
		s.Signs.Holds.setRung(signal.hold(), limits.Ladders.heldOn(signal.Rung, signal.From))
	case SignalTakeOver:
		s.Signs.TakeOver(signal.hold(), signal.Idle, signal.At)
	case SignalRelease:
		s.Signs.Close(signal.hold(), signal.At)
	case SignalAdmit, SignalSettle, SignalVoid, SignalSpent, SignalLoop:
		s.Spend.take(limits.Ladders, signal)
	case SignalExtend:
		s.extend(signal)
	case SignalPause:
		s.Signs.Pauses.Set(Pause{ID: signal.Key, Opened: signal.From, Cap: signal.Length})
	case SignalUnpause:
		s.Signs.Pauses.Set(Pause{ID: signal.Key, Released: signal.From, Closed: true})
	case SignalRung:
		s.Signs.restore(Limit(signal.Key), Rung{Attempts: signal.Rung, At: signal.At})
	}
}

func (s *Snapshot) attach(signal Signal) {
	if signal.Kind == SignalAttached {
		s.Begun = signal.At
		return
	}
	s.Attached, s.Extended, s.Warned, s.Wrapped = signal.At, signal.Length, signal.Warned, signal.Wrapped
}

func (s *Snapshot) extend(signal Signal) {
	if signal.More > 0 {
		s.Spend.extend(signal)
		return
	}
	s.Extended, s.Warned, s.Wrapped = Sum(s.Extended, signal.Length), 0, false
}

func (s Signal) hold() HoldID { return HoldID{s.Key, s.Serial} }

func (s Signal) limits() HoldLimits { return HoldLimits{Cap: s.Length, Idle: s.Idle} }
