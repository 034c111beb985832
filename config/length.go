package config

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"time"
)

// length is the kind of a duration with units, as Go writes it.
type length struct{ seconds }

func (l length) set(c *Config, v value) *invalidValue { return l.take(c, v, parseLength) }

// units are the units of a duration, in the order in which they are written.
var units = []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond, time.Microsecond, time.Nanosecond}

// unitForm has a group for the number of each unit. Each unit comes at most once, as Go prints them: this is less than
// [time.ParseDuration] accepts, and people read it in one way only.
var unitForm = formOf(strings.ReplaceAll(
	`^(?:(N)h)?(?:(N)m)?(?:(N)s)?(?:(N)ms)?(?:(N)[uµμ]s)?(?:(N)ns)?$`, "N", `[0-9]+(?:\.[0-9]+)?`))

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

// lengthProblem returns why a value is not a length.
func lengthProblem(v value) string {
	if problem := wordProblem(v); problem != "" {
		return problem
	}
	unsigned := strings.TrimLeft(v.text, "+-")
	number := decimal().MatchString(unsigned)
	switch {
	case slices.Contains(booleans, strings.ToLower(v.text)):
		return "is a boolean"
	case unsigned == "" || len(v.text) > maxShown:
		return "is not a length of time"
	case !number && !unitForm().MatchString(unsigned):
		return "is not a length of time"
	case strings.HasPrefix(v.text, "-"):
		return "is negative"
	case unsigned != v.text:
		return "has a sign; write the length without it"
	case number:
		return unitProblem(v)
	}
	return ""
}

// unitProblem returns why a number without a unit is not a length. Only 0 has the same meaning in every unit.
func unitProblem(v value) string {
	switch {
	case v.text != "0":
		return "has no unit; write one, such as " + v.text + "s for seconds"
	case v.quoted:
		return "is quoted; write the number without quotes"
	}
	return ""
}
