package config

import (
	"cmp"

	"github.com/seed62658d38/watchdog/stall"
)

// probe is what the settings of a probe are read into and shown from: the one there is, or one that never runs.
func (c *Config) probe() *stall.Probe { return cmp.Or(c.Stall.Probe, &c.unrun) }

// adoptProbe takes the probe that was read for the one there is. Without a command there is none.
func (c *Config) adoptProbe() {
	if len(c.unrun.Command) == 0 {
		return
	}
	probe := c.unrun
	c.Stall.Probe, c.unrun = &probe, stall.Probe{}
}
