package storetest

import "fmt"

// A Violation reports that a store breaks a rule. [Test] and [TestDurable] return it.
type Violation struct {
	// Rule is the name of the rule, a sentence. [Run] has a subtest of the same name.
	Rule string
	// Why says what goes wrong for a guard or its host if a store breaks the rule.
	Why string
	// Err says what the store did.
	Err error
}

// Error returns the rule, what the store did and why that matters.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s: %v\n\twhy it matters: %s", v.Rule, v.Err, v.Why)
}

// Unwrap returns Err.
func (v *Violation) Unwrap() error { return v.Err }
