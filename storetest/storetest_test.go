package storetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) watchdog.EventStore { return new(watchdog.Memory) })
	if err := storetest.Test(func() (watchdog.EventStore, error) { return new(watchdog.Memory), nil }); err != nil {
		t.Error(err)
	}
}

// Each store has one flaw, and breaks one rule: the one that is about the flaw.
func TestBrokenStores(t *testing.T) {
	for i, b := range brokenStores() {
		if racing.Enabled && i%4 > 0 {
			continue // every store is given to the same rules
		}
		t.Run(b.flaw, func(t *testing.T) {
			t.Parallel()
			err := storetest.Test(func() (watchdog.EventStore, error) { return b.open(), nil })
			if got := violated(t, err); !slices.Equal(got, []string{b.breaks}) {
				t.Errorf("a store that %s breaks\n\t%q, want only\n\t%q\n%v", b.flaw, got, b.breaks, err)
			}
		})
	}
}

func TestBrokenDurableStores(t *testing.T) {
	for _, b := range brokenPlaces() {
		t.Run(b.flaw, func(t *testing.T) {
			t.Parallel()
			err := storetest.TestDurable(b.place)
			if got := violated(t, err); !slices.Equal(got, []string{b.breaks}) {
				t.Errorf("a store that %s breaks\n\t%q, want only\n\t%q\n%v", b.flaw, got, b.breaks, err)
			}
		})
	}
}

// A race that a broken store can win is no rule: the suite of its author would pass now and then.
func TestRacesAreAlwaysFound(t *testing.T) {
	for _, b := range brokenPlaces() {
		if b.breaks != oneIDOfStores && b.breaks != noOverlapOfStores {
			continue
		}
		t.Run(b.flaw, func(t *testing.T) {
			for run := range racing.Tenth(100) {
				if storetest.CheckDurable(b.breaks, b.place()) == nil {
					t.Errorf("run %d did not find a store that %s", run+1, b.flaw)
				}
			}
		})
	}
}

// A place whose stores lock each other out keeps the rules, whether or not its stores have transactions.
func TestDurablePlace(t *testing.T) {
	memory := new(watchdog.Memory)
	for name, at := range map[string]func() func() (watchdog.EventStore, error){
		"with transactions": func() func() (watchdog.EventStore, error) {
			memory = new(watchdog.Memory)
			return func() (watchdog.EventStore, error) { return memory, nil }
		},
		"without": place(flaws{}),
	} {
		t.Run(name, func(t *testing.T) {
			if err := storetest.TestDurable(at); err != nil {
				t.Error(err)
			}
			storetest.RunDurable(t, func(*testing.T) func() (watchdog.EventStore, error) { return at() })
		})
	}
}

func TestRulesHaveBrokenStores(t *testing.T) {
	var broken []string
	for _, b := range brokenStores() {
		broken = append(broken, b.breaks)
	}
	for _, b := range brokenPlaces() {
		broken = append(broken, b.breaks)
	}
	for _, name := range slices.Concat(storetest.RuleNames(), storetest.DurableRuleNames()) {
		if !slices.Contains(broken, name) {
			t.Errorf("no broken store tests the rule %q", name)
		}
	}
}

func TestRuleNamesAreUnique(t *testing.T) {
	names := slices.Concat(storetest.RuleNames(), storetest.DurableRuleNames())
	slices.Sort(names)
	if unique := slices.Compact(slices.Clone(names)); len(unique) != len(names) {
		t.Errorf("some rules have one name: %q", names)
	}
}

func TestHangingStore(t *testing.T) {
	defer storetest.SetCheckTimeout(20 * time.Millisecond)()
	release := make(chan struct{})
	defer close(release)
	err := storetest.Test(func() (watchdog.EventStore, error) {
		return &altered{read: func(*watchdog.Memory, context.Context, string, string) ([]watchdog.Event, error) {
			<-release
			return nil, nil
		}}, nil
	})
	if !slices.Contains(violated(t, err), "an aggregate without events is empty, and no error") {
		t.Errorf("a Read that hangs is reported as\n%v", err)
	}
	if !strings.Contains(err.Error(), "did not return within") {
		t.Errorf("the error does not say that a call hung:\n%v", err)
	}
}

// A store that implements the interface of a store only, and no optional one, breaks no rule.
func TestPlainStore(t *testing.T) {
	err := storetest.Test(func() (watchdog.EventStore, error) { return &altered{}, nil })
	if err != nil {
		t.Error(err)
	}
}

// A follower that is not told is found when the time of the check is over.
func TestMissedEvents(t *testing.T) {
	defer storetest.SetCheckTimeout(200 * time.Millisecond)()
	err := storetest.Test(func() (watchdog.EventStore, error) {
		return &able{follow: func(_ *watchdog.Memory, ctx context.Context, _ string, ready func(), _ func(watchdog.Event)) error {
			ready()
			<-ctx.Done()
			return ctx.Err()
		}}, nil
	})
	for _, rule := range []string{
		"a follower of all runs is told of each event that is stored from then on, once",
		"a follower is told of what a transaction stores",
	} {
		if !slices.Contains(violated(t, err), rule) {
			t.Errorf("a Follow that tells nothing does not break the rule %q:\n%v", rule, err)
		}
	}
}

func TestOpenAndCloseErrors(t *testing.T) {
	flaw := errors.New("no such place")
	if err := storetest.Test(func() (watchdog.EventStore, error) { return nil, flaw }); !errors.Is(err, flaw) {
		t.Errorf("a store that does not open: %v", err)
	}
	place := func() func() (watchdog.EventStore, error) {
		return func() (watchdog.EventStore, error) { return nil, flaw }
	}
	if err := storetest.TestDurable(place); !errors.Is(err, flaw) {
		t.Errorf("a durable store that does not open: %v", err)
	}
	err := storetest.Test(func() (watchdog.EventStore, error) { return closing{new(watchdog.Memory), flaw}, nil })
	if !errors.Is(err, flaw) || len(violated(t, err)) != len(storetest.RuleNames()) {
		t.Errorf("a store that does not close: %v", err)
	}
}

type closing struct {
	*watchdog.Memory
	err error
}

func (c closing) Close() error { return c.err }

// TestRunFailure runs this test binary again. The child runs the suite with a broken store, and must fail the subtest
// of the rule.
func TestRunFailure(t *testing.T) {
	const childVariable = "STORETEST_RUN_BROKEN"
	if os.Getenv(childVariable) != "" {
		storetest.Run(t, func(*testing.T) watchdog.EventStore { return brokenStores()[0].open() })
		storetest.RunDurable(t, func(*testing.T) func() (watchdog.EventStore, error) { return brokenPlaces()[0].place() })
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), childVariable+"=1")
	output, err := child.CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) {
		t.Fatalf("the child with a broken store ended with %v:\n%s", err, output)
	}
	for _, rule := range []string{brokenStores()[0].breaks, brokenPlaces()[0].breaks} {
		want := "--- FAIL: " + t.Name() + "/" + strings.ReplaceAll(rule, " ", "_")
		if !strings.Contains(string(output), want) {
			t.Errorf("the output has no line %q:\n%s", want, output)
		}
	}
	if n := strings.Count(string(output), "why it matters: "); n != 2 {
		t.Errorf("the output says %d times why it matters, want twice:\n%s", n, output)
	}
}

// violated returns the rules that the error of Test names.
func violated(t *testing.T, err error) (names []string) {
	t.Helper()
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("not a joined error: %v", err)
	}
	for _, part := range joined.Unwrap() {
		var v *storetest.Violation
		if !errors.As(part, &v) {
			t.Fatalf("not a violation: %v", part)
		}
		if v.Why == "" || !strings.Contains(v.Error(), v.Why) || !strings.Contains(v.Error(), v.Rule) {
			t.Errorf("the violation does not say what and why: %v", v)
		}
		names = append(names, v.Rule)
	}
	return names
}
