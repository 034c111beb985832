package sessiontest

import "time"

// RuleNames returns the names of the rules.
func RuleNames() (names []string) {
	for _, r := range rules() {
		names = append(names, r.name)
	}
	return names
}

// SetRows sets how many rows the rules write that need many, and returns a function that restores it.
func SetRows(many, around int) (restore func()) {
	manyBefore, aroundBefore := crowd, slowest
	crowd, slowest = many, around
	return func() { crowd, slowest = manyBefore, aroundBefore }
}

// SetCheckTimeout sets the timeout of a check, and returns a function that restores it.
func SetCheckTimeout(d time.Duration) (restore func()) {
	before := checkTimeout
	checkTimeout = d
	return func() { checkTimeout = before }
}
