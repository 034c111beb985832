package config

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
)

type span struct {
	fallback time.Duration // the default
	zero     time.Duration // the meaning of 0
	none     string        // the same in words, where 0 is valid; if that is "none", it is a length and no switch
	nonzero  string        // why 0 is refused, if it is
	least    time.Duration // the shortest that is valid
	most     time.Duration // the longest that is valid; 0 for any
}

// seconds is the kind of a duration that is a plain decimal number of seconds, exact to the nanosecond.
func seconds(field func(*Config) *time.Duration, s span) kind {
	k := s.kind(field, parseSeconds)
	k.allows, k.schema = s.allowed("a number of seconds such as 600 or 0.5"), `{"type": "number", "minimum": 0}`
	if s.nonzero != "" {
		k.schema = `{"type": "number", "exclusiveMinimum": 0}`
	}
	return k
}

const allowedLength = "a length of time such as 30s, 5m or 1h30m"

// length is the kind of a duration with units, as Go writes it.
func length(field func(*Config) *time.Duration, s span) kind {
	k := s.kind(field, parseLength)
	k.allows = s.allowed(allowedLength)
	k.schema = `{"type": "string", "minLength": 1, "pattern": "` + unitPattern + `"}`
	if s.nonzero == "" && s.least == 0 {
		k.schema = `{"anyOf": [{"const": 0}, ` + k.schema + `]}`
	}
	return k
}

// milliseconds is the kind of a length whose variable is a number of milliseconds.
func milliseconds(field func(*Config) *time.Duration, s span) kind {
	k := length(field, s)
	k.allows = s.allowed(allowedLength + ", in the environment a whole number of milliseconds such as 300000")
	k.ending = "_MS"
	k.split = func(text string) value {
		v := fromText(text)
		v.unsupported = wholeProblem(v)
		v.text += "ms"
		return v
	}
	return k
}

// minutes is the kind of a tick's length: a plain decimal number of minutes in the range of ticks.
func minutes(field func(*Config) *time.Duration, s span) kind {
	k := s.kind(field, func(v value) (time.Duration, string) {
		number, err := strconv.ParseFloat(v.text, 64)
		inRange := err == nil && number >= bound.MinTick.Minutes() && number <= bound.MaxTick.Minutes()
		count, problem := parseSeconds(v) // the minutes, as seconds
		return count * 60, first([]when{{true, numberProblem(v)}, {!inRange, "is out of range"}, {true, problem}})
	})
	k.allows = "a number of minutes from 1 to 60, such as 30 or 7.5"
	k.schema = `{"type": "number", "minimum": 1, "maximum": 60}`
	return k
}

func (s span) allowed(lengths string) string {
	if s.none != "" {
		lengths += ", or 0 for " + s.none
	}
	if s.least > 0 {
		lengths += ", at least " + s.least.String()
	}
	if s.most > 0 {
		lengths += " and at most " + s.most.String()
	}
	return lengths
}

// kind is the kind of the span, which parse reads.
func (s span) kind(field func(*Config) *time.Duration, parse func(value) (time.Duration, string)) kind {
	inForce := func(c *Config) time.Duration { return cmp.Or(*field(c), s.fallback) }
	off := func(c *Config) bool {
		d := inForce(c)
		return s.none != "none" && (d == 0 || d == watchdog.NoLimit)
	}
	return kind{
		set: func(c *Config, v value) *invalidValue {
			d, problem := parse(v)
			problem = first([]when{
				{true, problem},
				{d < s.least, "is shorter than " + s.least.String()},
				{s.most > 0 && d > s.most, "is longer than " + s.most.String()},
				{d == 0, s.nonzero},
			})
			if d == 0 {
				d = s.zero
			}
			if problem == "" {
				*field(c) = d
			}
			return v.invalid(problem)
		},
		show: func(c *Config) string {
			switch d := inForce(c); {
			case s.none == "none" && d <= 0:
				return "none"
			case off(c):
				return "off"
			default:
				return d.String()
			}
		},
		off:     off,
		disable: func(c *Config) { *field(c) = s.zero },
		length:  inForce,
	}
}

func parseSeconds(v value) (time.Duration, string) {
	nanoseconds, finer, tooLarge := parseFixed(v.text, 9)
	return time.Duration(nanoseconds), first([]when{
		{true, numberProblem(v)}, {finer, "is finer than a nanosecond; write at most 9 decimals"},
		{tooLarge, "is too long; at most 9223372036 seconds fit"},
	})
}

// units are the units of a duration, in the order in which they are written.
var units = []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond, time.Microsecond, time.Nanosecond}

// unitPattern has a group for the number of each unit. Each unit comes at most once, as Go prints them: this is less
// than [time.ParseDuration] accepts, and people read it in one way only.
var (
	unitPattern = strings.ReplaceAll(
		`^(?:(N)h)?(?:(N)m)?(?:(N)s)?(?:(N)ms)?(?:(N)[uµμ]s)?(?:(N)ns)?$`, "N", `[0-9]+(?:[.][0-9]+)?`)
	unitForm = formOf(unitPattern)
)

func parseLength(v value) (duration time.Duration, problem string) {
	if problem := lengthProblem(v); problem != "" || v.text == "0" {
		return 0, problem
	}
	sum := new(big.Rat)
	for i, number := range unitForm().FindStringSubmatch(v.text)[1:] {
		if count, ok := new(big.Rat).SetString(number); ok {
			sum.Add(sum, count.Mul(count, big.NewRat(int64(units[i]), 1)))
		}
	}
	switch nanoseconds := sum.Num(); {
	case !sum.IsInt():
		return 0, "is finer than a nanosecond"
	case !nanoseconds.IsInt64() || nanoseconds.Int64() == math.MaxInt64:
		return 0, "is too long; at most 292 years fit"
	default:
		return time.Duration(nanoseconds.Int64()), ""
	}
}

// lengthProblem returns why a value is not a length. Of the numbers without a unit only 0 means the same in every unit.
func lengthProblem(v value) string {
	unsigned := strings.TrimLeft(v.text, "+-")
	number := decimal().MatchString(unsigned)
	isLength := unsigned != "" && len(v.text) <= maxShown && (number || unitForm().MatchString(unsigned))
	return first([]when{
		{true, wordProblem(v)},
		{slices.Contains(booleans, strings.ToLower(v.text)), "is a boolean"},
		{!isLength, "is not a length of time"},
		{strings.HasPrefix(v.text, "-"), "is negative"},
		{unsigned != v.text, "has a sign; write the length without it"},
		{number && v.text != "0", "has no unit; write one, such as " + v.text + "s for seconds"},
		{number && v.quoted, "is quoted; write the number without quotes"},
	})
}
