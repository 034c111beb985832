package sessiontest

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var stoppedRules = []rule{
	{"a claim can note that the agents were stopped, and whether that failed",
		"the sweeper that called the stop hook could not cancel the session, and another one must not call it again",
		func(e *env) {
			for _, failed := range []bool{false, true} {
				s := stops(e, putSilent(e, fmt.Sprint("failed-", failed), time.Hour), failed)
				require(s.Stopped && s.StopFailed == failed, "after a stop that failed (%v) the row is %+v", failed, s)
				claimsFor(e, s, by, 0, session.Done)
				contract.Part("after another claim", func() { looksLike(e, s) })
			}
		}},
	{"a session that was judged before its agents were stopped cannot be claimed, and can be cancelled",
		"two sweepers have judged the session, and the second one claims it when the first has given up",
		func(e *env) {
			before, c := putSilent(e, homeRun, time.Hour), cancelOf(homeRun)
			after := stops(e, before, true)
			claims(e, before, "pass-2", session.Changed)
			claims(e, before, by, session.Changed)
			looksLike(e, after)
			claimsFor(e, after, by, 0, session.Done)
			c.StopFailed = true
			cancelsAs(e, before, c, session.Done)
		}},
	{"after the end of a session no row says that its agents were stopped",
		"only of one that was cancelled it is to be seen that they could not be",
		func(e *env) {
			stops(e, putSilent(e, homeRun, time.Hour), true)
			finish(e, homeRun)
			notStopped(look(e, homeRun))
		}},
	{"a warning and a stop are noted beside each other, each until the session gives a sign of life",
		"a grace and a stop hook can be set together",
		func(e *env) {
			l, s := warned(e)
			stopped := stops(e, s, false)
			require(!stopped.WarnedAt.IsZero(), "after the stop the row is %+v", stopped)
			freshens(e, l.ID, quietSince(s, s.Activity+time.Second))
			warns(e, look(e, s.RunID), session.Done)
			got := look(e, s.RunID)
			require(!got.WarnedAt.IsZero() && !got.Stopped, "after another warning the row is %+v", got)
		}},
	voidStopRule("an activity", wakes),
	voidStopRule("an attach", attachesAgain),
}

// stops notes that the agents of a session were stopped, and returns its row.
func stops(e *env, s session.Session, failed bool) session.Session {
	claimsAs(e, s, session.ClaimRequest{
		By: by, EndID: "cancel of " + s.RunID, Stopped: true, StopFailed: failed,
	}, session.Done)
	return look(e, s.RunID)
}

func notStopped(s session.Session) { require(!s.Stopped && !s.StopFailed, "the row is %+v", s) }

// voidStopRule is the rule that a sign of life makes the note of a stop void.
func voidStopRule(after string, give sign) rule {
	return rule{"the note that agents were stopped is void after " + after, "those of its next silence would run on",
		func(e *env) {
			l, s := vouchedFor(e, session.Freshness{Activity: 0, Quiet: true})
			give(e, l, stops(e, s, true))
			got := look(e, s.RunID)
			notStopped(got)
			claims(e, got, by, session.Done)
		}}
}
