package config

// enabledPath is the sweeper's own switch.
const enabledPath = sweepBlock + ".enabled"

// disableGuards carries the one switch to the configs of all guards.
func (c *Config) disableGuards() {
	if !c.Disabled {
		return
	}
	c.Stall.Disabled, c.Sweep.Disabled = true, true
	c.sources[enabledPath] = c.sources[disabledPath]
}
