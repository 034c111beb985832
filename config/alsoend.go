package config

import (
	"cmp"

	"github.com/seed62658d38/watchdog/stall"
)

// alsoEnd returns the settings of what also ends: those in force, or of one that has no command.
func (c *Config) alsoEnd() *stall.AlsoEnd { return cmp.Or(c.Stall.AlsoEnd, &c.unusedAlsoEnd) }

// adoptAlsoEnd keeps the settings that were read, if they have a command.
func (c *Config) adoptAlsoEnd() {
	if len(c.unusedAlsoEnd.Command) == 0 {
		return
	}
	alsoEnd := c.unusedAlsoEnd
	c.Stall.AlsoEnd, c.unusedAlsoEnd = &alsoEnd, stall.AlsoEnd{}
}
