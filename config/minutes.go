package config

import (
	"cmp"
	"strconv"
	"time"

	"github.com/seed62658d38/watchdog/bound"
)

// minutes is the kind of a tick's length: a plain decimal number of minutes in the range of ticks.
type minutes struct {
	field func(*Config) *time.Duration
}

func (m minutes) fromVariable(text string) value { return fromText(text) }

func (m minutes) set(c *Config, v value) *invalidValue {
	if problem := numberProblem(v); problem != "" {
		return v.invalid(problem)
	}
	number, err := strconv.ParseFloat(v.text, 64)
	if err != nil || number < bound.MinTick.Minutes() || number > bound.MaxTick.Minutes() {
		return v.invalid("is out of range")
	}
	count, problem := parseSeconds(v) // parseSeconds reads the minutes as seconds
	if problem != "" {
		return v.invalid(problem)
	}
	*m.field(c) = count * 60
	return nil
}

func (m minutes) show(c *Config) string             { return m.effective(c).String() }
func (m minutes) off(*Config) bool                  { return false }
func (m minutes) effective(c *Config) time.Duration { return cmp.Or(*m.field(c), bound.DefaultTick) }
