package storetest

import "time"

// RuleNames returns the names of the rules of Run.
func RuleNames() (names []string) {
	for _, r := range rules() {
		names = append(names, r.name)
	}
	return names
}

// DurableRuleNames returns the names of the rules of RunDurable.
func DurableRuleNames() (names []string) {
	for _, r := range durableRules {
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
