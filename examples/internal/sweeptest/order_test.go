package sweeptest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

const (
	stalled = 50
	passes  = 5
)

// active is the number of active sessions.
var active = racing.Rounds(10_000, 1_000_000)

func inOrder(t *testing.T, db *database) {
	db.seed(t, active, stalled)
	s := db.store(t)
	sweeper := newSweeper(t, s, s, sweep.Config{})
	var all []string
	for range passes {
		p, err := sweeper.Sweep(t.Context())
		require.NoError(t, err)
		require.Equal(t, 10, p.Cancelled)
		all = append(all, cancelledIn(p)...)
	}
	require.Equal(t, oldestFirst(stalled), all)
	p, err := sweeper.Sweep(t.Context())
	require.NoError(t, err)
	require.Zero(t, p.Found, "nothing is left")
	require.Equal(t, stalled, db.cancelled())
	require.Len(t, db.cancels(t), stalled)
}

func poisonedSession(t *testing.T, db *database) {
	db.seed(t, 1000, stalled)
	s := db.store(t)
	oldest := oldestFirst(stalled)[0]
	sweeper := newSweeper(t, s, poisoned{s, oldest}, sweep.Config{Interval: time.Millisecond})
	var all []string
	failed := 0
	for range passes {
		p, err := sweeper.Sweep(t.Context())
		failed += p.Failed
		if p.Failed > 0 {
			require.ErrorIs(t, err, errPoisoned)
		}
		require.NoError(t, p.Err, "the pass goes on")
		all = append(all, cancelledIn(p)...)
	}
	require.Equal(t, oldestFirst(stalled)[1:], all)
	require.Greater(t, failed, 1, "it is tried again")
	require.Equal(t, "active", db.statuses(t)[oldest])
	require.Zero(t, db.cancels(t)[oldest])
}

func newSweeper(t *testing.T, source sweep.Finder, canceller sweep.Canceller, cfg sweep.Config) *sweep.Sweeper {
	t.Helper()
	cfg.Logger = quiet
	sweeper, err := sweep.New(source, canceller, cfg)
	require.NoError(t, err)
	return sweeper
}

// oldestFirst returns the runs that were seeded as stalled.
func oldestFirst(n int) (runIDs []string) {
	for i := n; i > 0; i-- {
		runIDs = append(runIDs, runNumber(i))
	}
	return runIDs
}

var errPoisoned = errors.New("poisoned")

// poisoned is a store that cannot cancel one session.
type poisoned struct {
	session.Store
	runID string
}

func (p poisoned) Cancel(ctx context.Context, judged session.Session, c session.CancelRequest) (session.Outcome, error) {
	if judged.RunID == p.runID {
		return "", errPoisoned
	}
	return p.Store.Cancel(ctx, judged, c)
}
