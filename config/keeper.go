package config

import (
	"fmt"

	"github.com/seed62658d38/watchdog/session"
)

// tooLate is what rows do that are written too seldom for their threshold. A sweeper that finds the keeper's lease
// expired judges a session by its row, and a row can be a tenth of the keeper's threshold behind its run, or its pace.
const tooLate = "rows would be too far behind their runs"

// tooLongForSweeper returns why the keeper's threshold does not go with the sweeper's.
func (c *Config) tooLongForSweeper(threshold key) string {
	swept, _ := keyAt(stalledPath)
	if swept.kind.off(c) || c.length(threshold) <= c.length(swept) {
		return ""
	}
	return fmt.Sprintf("is longer than %s, which is %s by %s: %s",
		stalledPath, swept.kind.show(c), c.sources[stalledPath], tooLate)
}

// tooShortForPace returns why the keeper's threshold is too short for a pace that is the default. One that is set has
// its own error.
func (c *Config) tooShortForPace(threshold key) string {
	pace, _ := keyAt(pacePath)
	longest := session.KeeperConfig{Threshold: c.length(threshold)}.MaxPace()
	if _, set := c.sources[pacePath]; set || c.length(pace) <= longest {
		return ""
	}
	return fmt.Sprintf("is too short for %s, which is %s by %s: write one of at most %v",
		pacePath, pace.kind.show(c), c.sources[pacePath], longest)
}

// tooSlow returns why the keeper would write the rows of live runs too seldom.
func (c *Config) tooSlow(pace key) string {
	threshold := c.keptThreshold()
	longest := session.KeeperConfig{Threshold: c.length(threshold)}.MaxPace()
	if c.length(pace) <= longest {
		return ""
	}
	return fmt.Sprintf("is too slow for %s, which is %s by %s: %s; at most %v is soon enough",
		threshold.path(), threshold.kind.show(c), c.sources[threshold.path()], tooLate, longest)
}

// keptThreshold returns the setting that is the keeper's threshold: its own, or else the sweeper's.
func (c *Config) keptThreshold() key {
	own, _ := keyAt(keeperThresholdPath)
	swept, _ := keyAt(stalledPath)
	if c.Keeper.Threshold == 0 && c.Sweep.StalledThreshold != 0 && !swept.kind.off(c) {
		return swept
	}
	return own
}

// adoptThreshold gives a keeper without a threshold of its own that of the sweeper.
func (c *Config) adoptThreshold() {
	if c.keptThreshold().path() == stalledPath {
		c.Keeper.Threshold = c.Sweep.StalledThreshold
		c.sources[keeperThresholdPath] = c.sources[stalledPath]
	}
}
