package sessiontest

import "time"

// RuleNames returns the names of the rules.
func RuleNames() (names []string) {
	for _, r := range rules() {
		names = append(names, r.name)
	}
	return names
}

// SetCheckTimeout sets the timeout of a check, and returns a function that restores it.
func SetCheckTimeout(d time.Duration) (restore func()) {
	before := checkTimeout
	checkTimeout = d
	return func() { checkTimeout = before }
}
