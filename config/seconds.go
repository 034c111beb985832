package config

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
)

// seconds is the kind of a duration: a plain decimal number of seconds, exact to the nanosecond.
type seconds struct {
	field    func(*Config) *time.Duration
	fallback time.Duration // the default
	zero     time.Duration // the meaning of 0
	nonzero  string        // why 0 is refused, if it is
	least    time.Duration // the shortest that is valid
	most     time.Duration // the longest that is valid; 0 for any
}

func (s seconds) fromVariable(text string) value { return fromText(text) }

func (s seconds) set(c *Config, v value) *invalidValue { return s.take(c, v, parseSeconds) }

func (s seconds) take(c *Config, v value, parse func(value) (time.Duration, string)) *invalidValue {
	duration, problem := parse(v)
	if problem != "" {
		return v.invalid(problem)
	}
	if duration < s.least {
		return v.invalid("is shorter than " + s.least.String())
	}
	if s.most > 0 && duration > s.most {
		return v.invalid("is longer than " + s.most.String())
	}
	if duration == 0 {
		if s.nonzero != "" {
			return v.invalid(s.nonzero)
		}
		duration = s.zero
	}
	*s.field(c) = duration
	return nil
}

func (s seconds) show(c *Config) string {
	if s.off(c) {
		return "off"
	}
	return s.effective(c).String()
}

func (s seconds) off(c *Config) bool {
	duration := s.effective(c)
	return duration == 0 || duration == watchdog.NoLimit
}

func (s seconds) disable(c *Config) { *s.field(c) = s.zero }

func (s seconds) effective(c *Config) time.Duration {
	return cmp.Or(*s.field(c), s.fallback)
}

// nanosecondDigits is how many decimals of a second a [time.Duration] has.
const nanosecondDigits = 9

func parseSeconds(v value) (duration time.Duration, problem string) {
	if problem := numberProblem(v); problem != "" {
		return 0, problem
	}
	whole, decimals, _ := strings.Cut(v.text, ".")
	if len(decimals) > nanosecondDigits {
		return 0, "is finer than a nanosecond; write at most 9 decimals"
	}
	digits := whole + decimals + strings.Repeat("0", nanosecondDigits-len(decimals))
	nanoseconds, err := strconv.ParseInt(digits, 10, 64)
	// The largest duration is not valid: in Go code it means no limit.
	if err != nil || nanoseconds == math.MaxInt64 {
		return 0, "is too long; at most 9223372036 seconds fit"
	}
	return time.Duration(nanoseconds), ""
}
