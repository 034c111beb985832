package loop

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A Mode is what a detector does about what it finds.
type Mode string

// The modes. The empty Mode is On.
const (
	// On asks and ends.
	On Mode = "on"
	// Off asks about nothing and ends nothing. It still says what is new.
	Off Mode = "off"
	// Strict takes nothing for a poll that is not of class [Wait]: it ends what may be one, too.
	Strict Mode = "strict"
)

// What is asked about, and when.
const (
	rounds      = 3                // of the same turns in a row
	maxPeriod   = 8                // turns in a round
	pairLimit   = 4                // times that one pair comes
	window      = 32               // turns in which pairs and futile calls count
	futileLimit = 8                // calls that get nothing
	telling     = 100              // bytes of an outcome that says more than one number or one word
	redoLimit   = 5                // times that a change is made in a row
	redoLength  = 120              // bytes of its input; a shorter one may be wanted again
	streakLimit = 12               // failures in a row
	after       = 2                // more rounds that end the run once it was told
	pollLimit   = 20               // polls that get the same
	waitLimit   = 10               // the same where Waits is End
	thinking    = 5 * time.Second  // a model alone may take as long; from this Gap on a guessed call ends nothing
	unknownPoll = 30 * time.Second // the Gap from which a call of no class is a poll
	lookPoll    = time.Minute      // and a look
	waitedPoll  = 15 * time.Second // how long waits take after which a look is one; less may be a moment of sleep
)

// What is remembered.
const (
	memory   = 256       // pairs; less would forget the first calls of turns with many
	tries    = 16        // series of futile calls at once
	maxWords = 12        // words of an input
	nothing  = 1         // what all looks get that find nothing or fail, however they put it
	unknown  = 1<<64 - 1 // how long waits of unknown length took
	streak   = 1         // the kind of a series of failures in a row, whatever was called and however it failed
)

// ErrInvalid is wrapped by [New] if a field of the [Config] is invalid. The text names the field.
var ErrInvalid = errors.New("invalid loop config")

// A Config says what a detector heeds. A field that is zero has its default. [New] copies the config.
type Config struct {
	// Mode is what is done about loops. Zero means On.
	Mode Mode
	// Classes are the classes of tools by their names, for steps that have none. [Person] is one, for a tool that asks a
	// person.
	Classes map[string]Class
	// Waits is what is done about calls of class [Wait] that get the same so often: [Ask] asks about 20 of them as about
	// polls, [End] ends the run for 10 of them or of polls, without asking first, if it did nothing else between. Zero and
	// [Go] leave waits out, and ask about polls. End ends healthy runs, too, which wait for something: 26 of the 424 in
	// testdata.
	Waits Advice
	// Volatile are the names of what is left out of outcomes: of fields of JSON, at any depth, and of lines of text such
	// as "Request ID: 7f3a".
	Volatile []string
	// Normalize, if it is set, returns what is compared of an outcome of a tool, for what else differs each time. It is
	// called in [Detector.Step] for each outcome, also by a watchdog. It must not change the outcome, and call neither.
	Normalize func(tool string, outcome []byte) []byte
}

func (c Config) complete() (Config, error) {
	if c.Mode = cmp.Or(c.Mode, On); c.Mode != On && c.Mode != Off && c.Mode != Strict {
		return Config{}, fmt.Errorf("%w: Mode is %q; use On, Off or Strict, or leave it empty for On", ErrInvalid, c.Mode)
	}
	for tool, class := range c.Classes {
		if !class.declared() && class != Person {
			return Config{}, fmt.Errorf("%w: Classes has %q for %q; use a class of this package", ErrInvalid, class, tool)
		}
	}
	if c.Waits = cmp.Or(c.Waits, Go); c.Waits != Go && c.Waits != Ask && c.Waits != End {
		return Config{}, fmt.Errorf("%w: Waits is %q; use Ask, End, or Go, or leave it empty for Go", ErrInvalid, c.Waits)
	}
	if i := slices.Index(c.Volatile, ""); i >= 0 {
		return Config{}, fmt.Errorf("%w: Volatile %d of %d is empty; name a field", ErrInvalid, i+1, len(c.Volatile))
	}
	c.Classes, c.Volatile = maps.Clone(c.Classes), slices.Clone(c.Volatile)
	return c, nil
}
