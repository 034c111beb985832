package sessiontest

import "time"

// RuleNames lists the rules of Run.
func RuleNames() (names []string) {
	for _, r := range rules() {
		names = append(names, r.name)
	}
	return names
}

// SetPatience shortens the time a check may take and returns what puts it back.
func SetPatience(d time.Duration) (restore func()) {
	before := patience
	patience = d
	return func() { patience = before }
}
