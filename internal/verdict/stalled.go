package verdict

import "time"

// SessionLimits say when a session of which only a row is known is stalled.
type SessionLimits struct {
	// Threshold is how long it may have nothing new; [Never] switches it off.
	Threshold time.Duration
	// MinAge is how old it has to be, at least.
	MinAge time.Duration
}

// Stalled reports whether a session of an age had nothing new for longer than it may. At its minimum age it is old enough; at its threshold it
// is not stalled yet.
func Stalled(limits SessionLimits, age, silence time.Duration) bool {
	return age >= limits.MinAge && silence > limits.Threshold // nothing is longer than Never
}
