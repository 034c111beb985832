package config

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
)

// manySessions is how many sessions a large host has: see [Config.WorstTime].
const manySessions = 10_000

// WorstTime says, in one line for people, how long it takes at worst from the last sign of life of a session to its
// cancel, for one session and for the last of 10,000 that only look stalled, all at once. It is what
// [sweep.Config.WorstTime] returns for Sweep and Keeper, rounded up to seconds; "never" stands for no limit. What the
// host adds, such as a StopHook, counts once it is there.
func (c *Config) WorstTime() string {
	one, last := c.Sweep.WorstTime(c.Keeper, 1), c.Sweep.WorstTime(c.Keeper, manySessions)
	return fmt.Sprintf("worst time from the last sign of life to the cancel: %s; for the last of 10,000 sessions: %s",
		showWorst(one), showWorst(last))
}

func showWorst(d time.Duration) string {
	if d >= watchdog.NoLimit-time.Second {
		return "never"
	}
	return (d + time.Second - 1).Truncate(time.Second).String()
}
