package verdict

// A Class is what a probe says of the state it saw. The empty one says nothing.
type Class string

// The classes.
const (
	ClassProgressing Class = "progressing" // it gets somewhere, whatever its digest
	ClassStalled     Class = "stalled"     // it does not, as far as the probe can tell; equal digests have to confirm it
	ClassTerminal    Class = "terminal"    // nothing good can come any more
)

// A Look is what one probe saw of a command.
type Look struct {
	Class  Class
	Digest string
	// Blind tells that the probe could not observe; the other fields mean nothing then.
	Blind bool
}

// A Trip is what a series of looks came to. The empty one is none.
type Trip string

// The trips.
const (
	TripNoProgress Trip = "no_progress"
	TripTerminal   Trip = "terminal"
)

// SeriesLimits say when a series of looks trips.
type SeriesLimits struct {
	// Same is how many looks in a row have to see the same. It is at least 2, which the caller checks: one look alone shows no lack of change.
	Same int
	// Blind is how many blind looks in a row trip as OnBlind. With a Blind of 0 or an empty OnBlind they mean nothing.
	Blind   int
	OnBlind Trip
}

// A SeriesVerdict says what a look came to.
type SeriesVerdict struct {
	// Trip is repeated by every look at which its condition still holds, for a caller that ignored it; First tells it apart from those that repeat it.
	Trip  Trip
	First bool
	// FromBlind tells that the trip is one of blind looks, and not of something seen.
	FromBlind bool
	// Progress tells that the look saw something new, or a state that is classed so. A look that is progress does not trip.
	Progress bool
	// Equal is how many looks in a row saw the same, this one included; after a look that is blind, progressing or terminal it is 0.
	Equal int
	// Blind is how many in a row saw nothing, this one included.
	Blind int
}

// A Series counts what the probes of one command saw. Its zero value has seen nothing. It is not safe for concurrent use.
type Series struct {
	seen         bool
	digest       string // of the last look that was not blind
	equal, blind int
	told         struct{ noProgress, terminal, blind bool }
}

// Observe takes the next look and says what it came to.
//
// A look classed terminal trips at once, and one classed progressing is progress and puts the count to 0. Any other counts: the first
// of equal digests is 1, and the series trips at Same. A digest unlike the last one seen is progress; the very first is not. A blind
// look ends a series of equal ones without being progress; what was seen before it is still what the next digest is compared with.
//
// A trip is First again only after its condition ended: no progress with the next progress, terminal with the next look that
// sees another class, and blind with the next look that sees.
func (s *Series) Observe(limits SeriesLimits, look Look) SeriesVerdict {
	if look.Blind {
		return s.observeNothing(limits)
	}
	changed := s.seen && look.Digest != s.digest
	s.seen, s.digest = true, look.Digest
	s.blind, s.told.blind = 0, false
	if look.Class == ClassTerminal {
		s.equal = 0
		return SeriesVerdict{Trip: TripTerminal, First: first(&s.told.terminal)}
	}
	s.told.terminal = false
	if look.Class == ClassProgressing || changed {
		s.told.noProgress = false
		s.equal = startOf(look.Class)
		return SeriesVerdict{Progress: true, Equal: s.equal}
	}
	s.equal++
	v := SeriesVerdict{Equal: s.equal}
	if s.equal >= limits.Same {
		v.Trip, v.First = TripNoProgress, first(&s.told.noProgress)
	}
	return v
}

func (s *Series) observeNothing(limits SeriesLimits) SeriesVerdict {
	s.equal = 0
	s.blind++
	v := SeriesVerdict{Blind: s.blind}
	if limits.OnBlind != "" && limits.Blind > 0 && s.blind >= limits.Blind {
		v.Trip, v.First, v.FromBlind = limits.OnBlind, first(&s.told.blind), true
	}
	return v
}

// startOf is where the count stands after progress: a state that is progressing is none to count equal ones of.
func startOf(class Class) int {
	if class == ClassProgressing {
		return 0
	}
	return 1
}

// first reports whether something was not told before, and notes that it is now.
func first(told *bool) bool {
	was := *told
	*told = true
	return !was
}
