package sessiontest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/internal/contract/contracttest"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sessiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	sessiontest.Run(t, func(*testing.T) session.Store { return new(session.Memory) })
	require.NoError(t, sessiontest.Test(func() (session.Store, error) { return frozen(), nil }))
}

// frozen returns a memory whose clock stands still, so that rows can be exactly at a limit, with an outbox.
func frozen() *session.Memory {
	now := time.Date(2026, 5, 6, 7, 8, 9, 123_000_000, time.UTC)
	return &session.Memory{Clock: func() time.Time { return now }, Outbox: true}
}

func brokenStores() []contracttest.Broken[session.Store] {
	return contracttest.Stores(open,
		brokenAttaches, brokenTakeovers, brokenRows, brokenLeases, brokenFreshens, brokenExpires, brokenExpired, brokenEnds,
		brokenStalled, brokenPages, brokenSilences, brokenBehinds, brokenAllowances,
		brokenCancels, brokenSigns, brokenClaims, brokenWarnings, brokenStops, brokenStoredEnds, brokenRaces,
		brokenTogether, brokenStarts,
		brokenEnded, brokenHistories, brokenLists, brokenListens, brokenOutboxes, brokenContexts,
	)
}

func TestBrokenStores(t *testing.T) {
	t.Cleanup(sessiontest.SetRows(2000, 50)) // their clock stands still, and no limit of theirs is higher
	contracttest.EachBreaksOneRule(t, sessiontest.Rules(), brokenStores())
}

// plain is a store that is neither a Putter nor a Listener.
type plain struct{ session.Store }

// A store that is not a Putter skips the rules that need one, and only those.
func TestPlainStore(t *testing.T) {
	require.NoError(t, sessiontest.Test(func() (session.Store, error) { return plain{frozen()}, nil }))
	err := sessiontest.Test(func() (session.Store, error) {
		return plain{open(attaches(func(_, _ row, after *row) { after.Attempt = 1 }))}, nil
	})
	require.ErrorContains(t, err, "attaching again counts the attempt: ")
}

func TestHangingStore(t *testing.T) {
	defer contract.SetTimeout(20 * time.Millisecond)()
	release := make(chan struct{})
	defer close(release)
	err := sessiontest.Test(func() (session.Store, error) {
		return open(before("Session", func(*call) { <-release })), nil
	})
	require.ErrorContains(t, err, "a run that has no row is not found: ")
	assert.ErrorContains(t, err, "did not return within")
}

func TestOpenAndCloseErrors(t *testing.T) {
	flaw := errors.New("no such place")
	require.ErrorIs(t, sessiontest.Test(func() (session.Store, error) { return nil, flaw }), flaw)
	sound := before("", func(*call) {})
	err := sessiontest.Test(func() (session.Store, error) { return closing{open(sound).(*altered), flaw}, nil })
	require.ErrorIs(t, err, flaw)
	assert.Equal(t, len(sessiontest.Rules()), strings.Count(err.Error(), "why it matters: "))
}

type closing struct {
	*altered
	err error
}

func (c closing) Close() error { return c.err }

func TestRunFailure(t *testing.T) {
	broken := brokenStores()[0]
	contracttest.RunFails(t, func() {
		sessiontest.Run(t, func(*testing.T) session.Store { return broken.Open() })
	}, contracttest.RuleOf(t, sessiontest.Rules(), broken.Breaks).Name)
}
