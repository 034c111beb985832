package sessiontest_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sessiontest"
	"github.com/seed62658d38/watchdog/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	sessiontest.Run(t, func(*testing.T) session.Store { return new(session.Memory) })
	require.NoError(t, sessiontest.Test(func() (session.Store, error) { return frozen(), nil }))
}

// Each store has one flaw, and breaks one rule: the one that is about the flaw.
func TestBrokenStores(t *testing.T) {
	t.Cleanup(sessiontest.SetRows(2000, 50)) // their clock stands still, and no limit of theirs is higher
	for i, b := range brokenStores() {
		if racing.Enabled && i%4 > 0 {
			continue // every store is given to the same rules
		}
		t.Run(b.flaw, func(t *testing.T) {
			t.Parallel()
			err := sessiontest.Test(func() (session.Store, error) { return b.open(), nil })
			assert.Equal(t, []string{b.breaks}, violated(t, err), "%v", err)
		})
	}
}

func TestRulesHaveBrokenStores(t *testing.T) {
	var broken []string
	for _, b := range brokenStores() {
		broken = append(broken, b.breaks)
	}
	for _, name := range sessiontest.RuleNames() {
		assert.Contains(t, broken, name, "no broken store tests this rule")
	}
}

func TestRuleNamesAreUnique(t *testing.T) {
	names := sessiontest.RuleNames()
	slices.Sort(names)
	assert.Len(t, slices.Compact(slices.Clone(names)), len(names))
}

// plain is a store that is neither a Putter nor a Listener.
type plain struct{ session.Store }

// A store that is not a Putter skips the rules that need one, and only those.
func TestPlainStore(t *testing.T) {
	require.NoError(t, sessiontest.Test(func() (session.Store, error) { return plain{frozen()}, nil }))
	err := sessiontest.Test(func() (session.Store, error) {
		return plain{attaches(func(_, _ row, after *row) { after.Attempt = 1 }).open()}, nil
	})
	assert.Contains(t, violated(t, err), "attaching again counts the attempt")
}

func TestHangingStore(t *testing.T) {
	defer sessiontest.SetCheckTimeout(20 * time.Millisecond)()
	release := make(chan struct{})
	defer close(release)
	err := sessiontest.Test(func() (session.Store, error) {
		return before("Session", func(*call) { <-release }).open(), nil
	})
	assert.Contains(t, violated(t, err), "a run that has no row is not found")
	assert.ErrorContains(t, err, "did not return within")
}

func TestOpenAndCloseErrors(t *testing.T) {
	flaw := errors.New("no such place")
	require.ErrorIs(t, sessiontest.Test(func() (session.Store, error) { return nil, flaw }), flaw)
	sound := before("", func(*call) {})
	err := sessiontest.Test(func() (session.Store, error) { return closing{sound.open().(*altered), flaw}, nil })
	require.ErrorIs(t, err, flaw)
	assert.Len(t, violated(t, err), len(sessiontest.RuleNames()))
}

type closing struct {
	*altered
	err error
}

func (c closing) Close() error { return c.err }

// TestRunFailure runs this test binary again. The child runs the suite with a broken store, and must fail the subtest
// of the rule.
func TestRunFailure(t *testing.T) {
	const childVariable = "SESSIONTEST_RUN_BROKEN"
	if os.Getenv(childVariable) != "" {
		sessiontest.Run(t, func(*testing.T) session.Store { return brokenStores()[0].open() })
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), childVariable+"=1")
	output, err := child.CombinedOutput()
	require.Error(t, err)
	rule := strings.ReplaceAll(brokenStores()[0].breaks, " ", "_")
	assert.Contains(t, string(output), "--- FAIL: "+t.Name()+"/"+rule)
	assert.Equal(t, 1, strings.Count(string(output), "why it matters: "))
}

// violated returns the rules that the error of Test names.
func violated(t *testing.T, err error) (names []string) {
	t.Helper()
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "not a joined error: %v", err)
	for _, part := range joined.Unwrap() {
		var v *storetest.Violation
		require.ErrorAs(t, part, &v)
		assert.NotEmpty(t, v.Why)
		names = append(names, v.Rule)
	}
	return names
}
