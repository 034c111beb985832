package sessiontest

import (
	"time"

	"github.com/seed62658d38/watchdog/session"
)

var lostRules = []rule{
	{
		"a session is lost if its process was, until a process takes it up or it ends",
		"sweepers end the sessions of a process that was seen to die without a cap, and those of one that stopped with it",
		func(e *env) {
			leaveAll(e, true, "claimed", "attached", "ended", "left")
			begin(e, awayLease)
			attach(e, newSession("attached"))
			freshens(e, awayLease, session.Freshness{RunID: "claimed", Attempt: 1, Activity: time.Second})
			finish(e, "ended")
			areLost(e, false, "claimed", "attached", "ended")
			areLost(e, true, "left")
		},
	},
	{
		"a session that was not lost with its lease is not lost",
		"what stopped, or was seen to die with a whole fleet, is ended as slowly as what only looks stalled",
		func(e *env) { leaveAll(e, false, "stopped") },
	},
}

// leaveAll attaches runs under a lease, expires it, and checks whether they are lost.
func leaveAll(e *env, lost bool, runIDs ...string) {
	l := begin(e, homeLease)
	for _, runID := range runIDs {
		attachUnder(e, homeLease, runID)
	}
	l.Lost = lost
	expires(e, l, true, 0)
	areLost(e, lost, runIDs...)
}

func areLost(e *env, want bool, runIDs ...string) {
	for _, runID := range runIDs {
		s := look(e, runID)
		require(s.Lost == want, "run %s is lost: %v, want %v", runID, s.Lost, want)
	}
}
