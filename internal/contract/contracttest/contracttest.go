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

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// A Broken store has one flaw.
type Broken[S any] = struct {
	Flaw   string // completes "a store that …"
	Breaks string // the rule that must find it
	Open   func() S
}

// EachBreaksOneRule gives each store to all rules. It breaks one rule: the one that is about its flaw. And each rule
// has a name of its own, and is broken by a store.
func EachBreaksOneRule[S any](t *testing.T, rules []contract.Rule[S], all []Broken[S]) {
	t.Helper()
	var broken []string
	for i, b := range all {
		broken = append(broken, b.Breaks)
		if racing.Enabled && i%4 > 0 {
			continue // every store is given to the same rules
		}
		t.Run(b.Flaw, func(t *testing.T) {
			t.Parallel()
			var violated []string
			err := contract.Test(rules, func() (S, error) { return b.Open(), nil },
				func(name, _ string, err error) error {
					violated = append(violated, name)
					return err
				})
			if !slices.Equal(violated, []string{b.Breaks}) {
				t.Errorf("a store that %s breaks %q, want %q: %v", b.Flaw, violated, b.Breaks, err)
			}
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
