package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
)

// RuleNames, DurableRuleNames and SpendRuleNames return the names of the rules of Run, RunDurable and RunSpend.
func RuleNames() []string        { return names(eventRules()) }
func DurableRuleNames() []string { return names(durableRules) }
func SpendRuleNames() []string   { return names(spendRules()) }

func names[S any](rules []rule[S]) (names []string) {
	for _, r := range rules {
		names = append(names, r.name)
	}
	return names
}

// CheckDurable checks one rule of RunDurable.
func CheckDurable(name string, open func() (watchdog.EventStore, error)) error {
	return checkOne(durableRules, name, open)
}

// CheckSpend checks one rule of RunSpend.
func CheckSpend(name string, store watchdog.SpendStore) error {
	return checkOne(spendRules(), name, store)
}

func checkOne[S any](rules []rule[S], name string, store S) error {
	for _, r := range rules {
		if r.name == name {
			return r.checkOn(context.Background(), store)
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
