package storetest

import "time"

// RuleNames lists the rules of Run, DurableRuleNames those of RunDurable.
func RuleNames() (names []string) {
	for _, r := range rules() {
		names = append(names, r.name)
	}
	return names
}

func DurableRuleNames() (names []string) {
	for _, r := range durableRules {
		names = append(names, r.name)
	}
	return names
}

// SetPatience shortens the time a check may take and returns what puts it back.
func SetCheckTimeout(d time.Duration) (restore func()) {
	before := checkTimeout
	checkTimeout = d
	return func() { checkTimeout = before }
}
