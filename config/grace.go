package config

import "github.com/seed62658d38/watchdog"

// grace is the kind of the time after a signal. 0 is a valid length: the next signal follows at once.
type grace struct{ length }

func (g grace) show(c *Config) string {
	if *g.field(c) == watchdog.None {
		return "none"
	}
	return g.effective(c).String()
}

func (g grace) off(*Config) bool { return false }
