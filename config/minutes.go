package config

import (
	"cmp"
	"strconv"
	"time"

	"github.com/seed62658d38/watchdog/bound"
)

// minutes is the kind of a tick's length: a plain decimal number of minutes in the range there is for ticks.
type minutes struct {
	field func(*Config) *time.Duration
}

func (m minutes) fromVariable(text string) value { return written(text) }

func (m minutes) set(c *Config, v value) *flaw {
	if problem := numberProblem(v); problem != "" {
		return v.flaw(problem)
	}
	number, err := strconv.ParseFloat(v.text, 64)
	if err != nil || number < bound.MinTick.Minutes() || number > bound.MaxTick.Minutes() {
		return v.flaw("is out of range")
	}
	count, problem := parseSeconds(v) // one second stands for one minute
	if problem != "" {
		return v.flaw(problem)
	}
	*m.field(c) = count * 60
	return nil
}

func (m minutes) show(c *Config) string           { return m.inForce(c).String() }
func (m minutes) off(*Config) bool                { return false }
func (m minutes) inForce(c *Config) time.Duration { return cmp.Or(*m.field(c), bound.DefaultTick) }
