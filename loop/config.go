package loop

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// NoLimit is how "no limit" is spelled in every package. In Period, Pairs, Futile, Polls and Fuse it switches the rule
// off.
const NoLimit = math.MaxInt64

// The values of a [Config] that sets none.
const (
	DefaultRounds = 3
	DefaultPeriod = 8
	DefaultPairs  = 4
	DefaultWindow = 32
	DefaultFutile = 8
	DefaultAfter  = 2
	DefaultPolls  = 20
	DefaultWaits  = 10 // Polls, where Waits is End
	DefaultFuse   = 30
	DefaultFuseOf = 40
	DefaultPoll   = time.Minute
)

// The largest values in a [Config]. They keep the state below [MaxState].
const (
	MaxPeriod = 32
	MaxCount  = 64  // of Rounds, Pairs, Futile and After
	MaxWindow = 128 // of Window and FuseOf
)

// ErrInvalid is wrapped by [New] if a field of the [Config] is invalid. The text names the field.
var ErrInvalid = errors.New("invalid loop config")

// A Config says when a run repeats itself. A field that is zero has its default. [New] copies the config.
type Config struct {
	// Rounds is how many rounds of the same turns in a row are asked about, at least 2. Zero means 3.
	Rounds int
	// Period is the number of turns in the longest round that is looked for. Zero means 8, NoLimit means that no rounds
	// are looked for.
	Period int
	// Pairs is how often the same pair of input and outcome is asked about, at least 2. Zero means 4, NoLimit never.
	Pairs int
	// Window is how many turns back Pairs and Futile count. Zero means 32.
	Window int
	// Futile is how many calls of one tool that get nothing, or the same, or fail in the same way, are asked about,
	// however they are put, at least 2. Zero means 8, NoLimit means any number.
	Futile int
	// After is how many more rounds end the run once it was told. Zero means 2.
	After int
	// Fuse is how many of the last FuseOf pairs end the run if they were seen before. Zero means 30 of 40, NoLimit never.
	Fuse, FuseOf int
	// Polls is how many calls in a row that may be polls, and get the same, are asked about. Zero means 20, or 10 if Waits
	// is [End]; NoLimit any number.
	Polls int
	// Waits is what is done about calls of class [Wait] that get the same so often: [Ask] asks about them as about polls,
	// [End] ends the run for them and for polls, without asking first, if it did nothing else between. Zero and [Go] leave
	// waits out, and ask about polls.
	Waits Advice
	// Poll is the Gap from which a call of class [Look] that was made before may be a poll, which counts as [Wait]. For a
	// call of no class, also guessed, it is 5 seconds, and a call right after waits of 15 seconds may be a poll whatever
	// its Gap. Zero means a minute.
	Poll time.Duration
	// Volatile are the names of fields that are left out of outcomes that are JSON, at any depth.
	Volatile []string
}

// complete checks the config and returns a copy with the defaults set.
func (c Config) complete() (Config, error) {
	c.FuseOf = cmp.Or(c.FuseOf, DefaultFuseOf)
	polls := DefaultPolls
	if c.Waits == End {
		polls = DefaultWaits
	}
	for _, f := range []struct {
		name          string
		value         *int
		low, high, or int
		optional      bool
	}{
		{"Rounds", &c.Rounds, 2, MaxCount, DefaultRounds, false},
		{"Period", &c.Period, 1, MaxPeriod, DefaultPeriod, true},
		{"Pairs", &c.Pairs, 2, MaxCount, DefaultPairs, true},
		{"Window", &c.Window, 1, MaxWindow, DefaultWindow, false},
		{"Futile", &c.Futile, 2, MaxCount, DefaultFutile, true},
		{"Polls", &c.Polls, 2, math.MaxInt32, polls, true},
		{"After", &c.After, 1, MaxCount, DefaultAfter, false},
		{"FuseOf", &c.FuseOf, 1, MaxWindow, DefaultFuseOf, false},
		{"Fuse", &c.Fuse, 1, c.FuseOf, min(DefaultFuse, c.FuseOf), true},
	} {
		if *f.value == 0 {
			*f.value = f.or
		}
		if off := f.optional && unlimited(*f.value); !off && (*f.value < f.low || *f.value > f.high) {
			return Config{}, fmt.Errorf("%w: %s is %d; use %d to %d%s, or 0 for %d",
				ErrInvalid, f.name, *f.value, f.low, f.high, orNoLimit(f.optional), f.or)
		}
	}
	if c.Pairs > c.Window && !unlimited(c.Pairs) {
		return Config{}, fmt.Errorf("%w: Pairs is %d, but a Window of %d turns never has so many; enlarge it, or use NoLimit",
			ErrInvalid, c.Pairs, c.Window)
	}
	return c.completeRest()
}

func (c Config) completeRest() (Config, error) {
	if c.Poll = cmp.Or(c.Poll, DefaultPoll); c.Poll < 0 {
		return Config{}, fmt.Errorf("%w: Poll is %v; use a positive duration, or 0 for %v", ErrInvalid, c.Poll, DefaultPoll)
	}
	if c.Waits = cmp.Or(c.Waits, Go); c.Waits != Go && c.Waits != Ask && c.Waits != End {
		return Config{}, fmt.Errorf("%w: Waits is %q; use Ask, End, or Go, or leave it empty for Go", ErrInvalid, c.Waits)
	}
	if i := slices.Index(c.Volatile, ""); i >= 0 {
		return Config{}, fmt.Errorf("%w: Volatile %d of %d is empty; name a field", ErrInvalid, i+1, len(c.Volatile))
	}
	c.Volatile = slices.Clone(c.Volatile)
	return c, nil
}

func unlimited(n int) bool { return int64(n) == NoLimit }

func orNoLimit(optional bool) string {
	if optional {
		return ", NoLimit"
	}
	return ""
}
