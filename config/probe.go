package config

import (
	"cmp"

	"github.com/seed62658d38/watchdog/stall"
)

// probe returns the probe's settings: those of the probe in force, or of one that never runs.
func (c *Config) probe() *stall.Probe { return cmp.Or(c.Stall.Probe, &c.unusedProbe) }

// adoptProbe keeps the settings that were read as the probe, if they have a command.
func (c *Config) adoptProbe() {
	if len(c.unusedProbe.Command) == 0 {
		return
	}
	probe := c.unusedProbe
	c.Stall.Probe, c.unusedProbe = &probe, stall.Probe{}
}
