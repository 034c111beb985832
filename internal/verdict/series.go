package verdict

// A Class is how a probe classifies the state it saw. The empty class says nothing.
type Class string

// The classes.
const (
	ClassProgressing Class = "progressing" // there is progress, whatever the digest
	ClassStalled     Class = "stalled"     // no progress that the probe can see; equal digests have to confirm it
	ClassTerminal    Class = "terminal"    // the command cannot succeed any more
)

// An Observation is what one probe saw of a command.
type Observation struct {
	Class  Class
	Digest string
	// Blind says that the probe could not observe; the other fields are meaningless then.
	Blind bool
}

// A Trip is a condition that a series has met. The empty trip is none.
type Trip string

// The trips.
const (
	TripNoProgress Trip = "no_progress"
	TripTerminal   Trip = "terminal"
)

// SeriesLimits say when a series of observations trips.
type SeriesLimits struct {
	// Same is how many equal observations in a row trip. The caller makes sure that it is at least 2, because a single
	// observation cannot show that nothing changed.
	Same int
	// Blind is how many blind observations in a row trip as OnBlind. If Blind is 0 or OnBlind is empty, they never trip.
	Blind   int
	OnBlind Trip
}

// A SeriesVerdict is the result of one observation.
type SeriesVerdict struct {
	// Trip is set by every observation while its condition holds. First is true only for the first of them, so that a
	// caller can ignore the others.
	Trip  Trip
	First bool
	// FromBlind says that blind observations tripped.
	FromBlind bool
	// Progress says that the digest changed, or that the class is progressing. Such an observation does not trip.
	Progress bool
	// Equal is how many observations in a row were equal, this one included. It is 0 after a blind, progressing or
	// terminal one.
	Equal int
	// Blind is how many observations in a row were blind, this one included.
	Blind int
}

// A Series counts what the probes of one command saw. The zero value is ready to use. A Series is not safe for
// concurrent use.
type Series struct {
	seen         bool
	digest       string // of the last observation that was not blind
	equal, blind int
	reported     struct{ noProgress, terminal, blind bool }
}

// Observe adds the next observation and returns its result.
//
// A terminal observation trips at once. A progressing one is progress and sets the count to 0. Any other counts: the
// first of equal digests is 1, and the series trips at Same. A digest that differs from the last one is progress; the
// very first digest is not. A blind observation ends a series of equal ones and is not progress; the next digest is
// compared with the last one before it.
//
// A trip is First again only after its condition has ended: no progress ends with the next progress, terminal with the
// next observation of another class, and blind with the next observation that is not blind.
func (s *Series) Observe(limits SeriesLimits, seen Observation) SeriesVerdict {
	if seen.Blind {
		return s.observeBlind(limits)
	}
	changed := s.seen && seen.Digest != s.digest
	s.seen, s.digest = true, seen.Digest
	s.blind, s.reported.blind = 0, false
	if seen.Class == ClassTerminal {
		s.equal = 0
		return SeriesVerdict{Trip: TripTerminal, First: first(&s.reported.terminal)}
	}
	s.reported.terminal = false
	if seen.Class == ClassProgressing || changed {
		s.reported.noProgress = false
		if s.equal = 1; seen.Class == ClassProgressing {
			s.equal = 0
		}
		return SeriesVerdict{Progress: true, Equal: s.equal}
	}
	s.equal++
	v := SeriesVerdict{Equal: s.equal}
	if s.equal >= limits.Same {
		v.Trip, v.First = TripNoProgress, first(&s.reported.noProgress)
	}
	return v
}

func (s *Series) observeBlind(limits SeriesLimits) SeriesVerdict {
	s.equal = 0
	s.blind++
	v := SeriesVerdict{Blind: s.blind}
	if limits.OnBlind != "" && limits.Blind > 0 && s.blind >= limits.Blind {
		v.Trip, v.First, v.FromBlind = limits.OnBlind, first(&s.reported.blind), true
	}
	return v
}

// first reports whether something is reported for the first time, and marks it as reported.
func first(reported *bool) bool {
	was := *reported
	*reported = true
	return !was
}
