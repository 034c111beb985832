// Package contracttest tests a suite of rules with stores that break them.
//
// It does not test that a sound store keeps the rules.
package contracttest

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// A Broken store has one flaw.
type Broken[S any] = struct {
	Flaw   string // completes "a store that …"
	Breaks string // the rule that must find it: a part of its name, which no other name has
	Open   func() S
}

// A Row is a broken store of a table. It is made with a fault.
type Row[C Call] = struct {
	Flaw, Breaks string
	Fault        Fault[C]
}

// Stores returns the broken stores of tables.
func Stores[S any, C Call](open func(Fault[C]) S, tables ...[]Row[C]) (all []Broken[S]) {
	for _, row := range slices.Concat(tables...) {
		all = append(all, Broken[S]{row.Flaw, row.Breaks, func() S { return open(row.Fault) }})
	}
	return all
}

// RuleOf returns the rule that a broken store breaks.
func RuleOf[S any](t *testing.T, rules []contract.Rule[S], breaks string) (rule contract.Rule[S]) {
	t.Helper()
	found := 0
	for _, r := range rules {
		if strings.Contains(r.Name, breaks) {
			rule = r
			found++
		}
	}
	if found != 1 {
		t.Fatalf("%d rules have %q in their names, want 1", found, breaks)
	}
	return rule
}

// EachBreaksOneRule gives each store to the rule that it breaks, and to those near it, which are about the same and
// would be the first to look at more than they promise: to all in a long run. It breaks one, the one that is about its
// flaw. And each rule has a name of its own, and is broken by a store.
func EachBreaksOneRule[S any](t *testing.T, rules []contract.Rule[S], all []Broken[S]) {
	t.Helper()
	var broken []string
	near := racing.Rounds(4, len(rules))
	for _, b := range all {
		rule := RuleOf(t, rules, b.Breaks).Name
		broken = append(broken, rule)
		at := slices.IndexFunc(rules, func(r contract.Rule[S]) bool { return r.Name == rule })
		given := rules[max(at-near, 0):min(at+near+1, len(rules))]
		t.Run(b.Flaw, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var violated []string
				err := contract.Test(given, func() (S, error) { return b.Open(), nil },
					func(name, _ string, err error) error {
						violated = append(violated, name)
						return err
					})
				if !slices.Equal(violated, []string{rule}) {
					t.Errorf("a store that %s breaks %q, want %q: %v", b.Flaw, violated, rule, err)
				}
			})
		})
	}
	names := slices.Sorted(slices.Values(contract.Names(rules)))
	slices.Sort(broken)
	if broken = slices.Compact(broken); !slices.Equal(names, broken) {
		t.Errorf("the rules are %q, and those that stores break %q", names, broken)
	}
}

// RunFails runs the test binary again. The child runs suites with broken stores, and must fail the subtests of the
// rules, and no other.
func RunFails(t *testing.T, run func(), rules ...string) {
	t.Helper()
	const child = "CONTRACT_RUN_BROKEN"
	if os.Getenv(child) != "" {
		run()
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1")
	output, err := cmd.CombinedOutput()
	if n := strings.Count(string(output), "why it matters: "); err == nil || n != len(rules) {
		t.Errorf("the child ended with %v, and %d rules failed, want %d:\n%s", err, n, len(rules), output)
	}
	for _, rule := range rules {
		if !strings.Contains(string(output), "--- FAIL: "+t.Name()+"/"+strings.ReplaceAll(rule, " ", "_")) {
			t.Errorf("the child did not fail the subtest of %q:\n%s", rule, output)
		}
	}
}

// A Call is a call of a method of a store: its arguments and, when it was made, its results.
type Call interface {
	// Method returns the name of the method.
	Method() string
	// Return has the call return an error, unless it is made.
	Return(err error)
}

// An Alteration gets each call of a store, and next, which makes the call.
type Alteration[C Call] = func(c C, next func())

// A Fault makes the alteration of one store.
type Fault[C Call] = func() Alteration[C]

// Around is a fault in the calls of one method.
func Around[C Call](method string, alter Alteration[C]) Fault[C] {
	return func() Alteration[C] {
		return func(c C, next func()) {
			if c.Method() == method {
				alter(c, next)
			} else {
				next()
			}
		}
	}
}

// Before is a fault that changes the arguments of a method.
func Before[C Call](method string, change func(c C)) Fault[C] {
	return Around(method, func(c C, next func()) {
		change(c)
		next()
	})
}

// After is a fault that changes the results of a method, or does something else after it.
func After[C Call](method string, change func(c C)) Fault[C] {
	return Around(method, func(c C, next func()) {
		next()
		change(c)
	})
}

// Fails is a fault in which some calls of a method are not made.
func Fails[C Call](method string, err error, which func(c C) bool) Fault[C] {
	return Around(method, func(c C, next func()) {
		if c.Return(err); !which(c) {
			next()
		}
	})
}

// Both is a fault in two methods.
func Both[C Call](one, other Fault[C]) Fault[C] {
	return func() Alteration[C] {
		first, second := one(), other()
		return func(c C, next func()) { first(c, func() { second(c, next) }) }
	}
}
