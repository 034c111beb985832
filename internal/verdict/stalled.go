package verdict

import "time"

// SessionLimits say when a session that is known only from its row is stalled.
type SessionLimits struct {
	// Threshold is how long it may be silent; [Never] switches the check off.
	Threshold time.Duration
	// MinAge is the age from which on it can be stalled.
	MinAge time.Duration
}

// Stalled reports whether a session of that age was silent for longer than its threshold. At the minimum age it is old
// enough; at the threshold it is not stalled yet.
func Stalled(limits SessionLimits, age, silence time.Duration) bool {
	return age >= limits.MinAge && silence > limits.Threshold // nothing is longer than Never
}
