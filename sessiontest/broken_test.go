package sessiontest_test

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract/contracttest"
	"github.com/seed62658d38/watchdog/session"
)

// broken is a store with one flaw, and the rule that must find it.
type broken struct {
	flaw, breaks string
	fault
}

func brokenStores() (all []contracttest.Broken[session.Store]) {
	for _, b := range slices.Concat(
		brokenAttaches, brokenTakeovers, brokenRows, brokenLeases, brokenFreshens, brokenExpires, brokenExpired, brokenEnds,
		brokenStalled, brokenPages, brokenSilences, brokenBehinds, brokenAllowances,
		brokenCancels, brokenSigns, brokenClaims, brokenWarnings, brokenStops, brokenStoredEnds, brokenRaces,
		brokenTogether, brokenStarts,
		brokenEnded, brokenHistories, brokenLists, brokenListens, brokenOutboxes, brokenContexts,
	) {
		all = append(all, contracttest.Broken[session.Store]{
			b.flaw, b.breaks, func() session.Store { return open(b.fault) },
		})
	}
	return all
}

// frozen returns a memory whose clock stands still, so that rows can be exactly at a limit, with an outbox.
func frozen() *session.Memory {
	now := time.Date(2026, 5, 6, 7, 8, 9, 123_000_000, time.UTC)
	return &session.Memory{Clock: func() time.Time { return now }, Outbox: true}
}
