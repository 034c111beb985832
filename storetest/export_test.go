package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
)

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

// CheckDurable checks one rule of RunDurable.
func CheckDurable(name string, open func() (watchdog.EventStore, error)) error {
	for _, r := range durableRules {
		if r.name == name {
			return r.checkAt(context.Background(), open)
		}
	}
	return fmt.Errorf("there is no rule %q", name)
}

// SetCheckTimeout sets the timeout of a check, and returns a function that restores it.
func SetCheckTimeout(d time.Duration) (restore func()) {
	before := checkTimeout
	checkTimeout = d
	return func() { checkTimeout = before }
}

// SpendRuleNames returns the names of the rules of RunSpend.
func SpendRuleNames() (names []string) {
	for _, r := range spendRules() {
		names = append(names, r.name)
	}
	return names
}

// CheckSpend checks one rule of RunSpend.
func CheckSpend(name string, store watchdog.SpendStore) error {
	for _, r := range spendRules() {
		if r.name == name {
			return r.checkOn(context.Background(), store)
		}
	}
	return fmt.Errorf("there is no rule %q", name)
}
