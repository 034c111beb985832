package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var lostRules = []rule{
	{
		"a session is lost if its process was, until a process takes it up or it ends",
		"sweepers end the sessions of a process that was seen to die without a cap, and those of one that stopped with it",
		func(ctx context.Context, store session.Store) error {
			if err := leaveAll(ctx, store, true, "claimed", "attached", "ended", "left"); err != nil {
				return err
			}
			if _, err := begin(ctx, store, "lease-2"); err != nil {
				return err
			}
			if _, _, err := store.Attach(ctx, newSession("attached")); err != nil {
				return err
			}
			claim := session.Freshness{RunID: "claimed", Attempt: 1, Activity: time.Second}
			return errors.Join(freshens(ctx, store, "lease-2", claim), isLost(ctx, store, "claimed", false),
				isLost(ctx, store, "attached", false),
				end(ctx, store, session.Ending{RunID: "ended", Attempt: 1, Status: session.Finished}),
				isLost(ctx, store, "ended", false), isLost(ctx, store, "left", true))
		},
	},
	{
		"a session that was not lost with its lease is not lost",
		"what stopped, or was seen to die with a whole fleet, is ended as slowly as what only looks stalled",
		func(ctx context.Context, store session.Store) error {
			return leaveAll(ctx, store, false, "stopped")
		},
	},
}

// leaveAll attaches runs under a lease, expires it, and checks whether they are lost.
func leaveAll(ctx context.Context, store session.Store, lost bool, runIDs ...string) error {
	l, err := begin(ctx, store, homeLease)
	if err != nil {
		return err
	}
	for _, runID := range runIDs {
		if _, err := attach(ctx, store, underLease(newSession(runID), homeLease)); err != nil {
			return err
		}
	}
	l.Lost = lost
	return errors.Join(expires(ctx, store, l, true, 0),
		contract.Each(runIDs, func(runID string) error { return isLost(ctx, store, runID, lost) }))
}

func isLost(ctx context.Context, store session.Store, runID string, want bool) error {
	s, err := look(ctx, store, runID)
	if err == nil && s.Lost != want {
		err = fmt.Errorf("run %s is lost: %v, want %v", runID, s.Lost, want)
	}
	return err
}
