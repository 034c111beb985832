package sessiontest

import (
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// A sign changes a session of a lease that was judged. Each changes as little of the row as it can.
type sign func(e *env, l session.Lease, s session.Session)

func wakes(e *env, l session.Lease, s session.Session) {
	freshens(e, l.ID, quietSince(s, s.Activity+1))
}

func isTakenUp(e *env, _ session.Lease, s session.Session) {
	freshens(e, begin(e, awayLease).ID, quietSince(s, s.Activity))
}

func losesLease(e *env, l session.Lease, _ session.Session) { expires(e, l, true, 0) }

func attachesAgain(e *env, l session.Lease, s session.Session) { attachUnder(e, l.ID, s.RunID) }

func finishes(e *env, _ session.Lease, s session.Session) {
	end(e, session.Ending{RunID: s.RunID, Attempt: s.Attempt, Status: session.Finished, Age: day})
}

// signRules are about what happens to a session after it was judged.
var signRules = []rule{
	signRule("that was active again", "between the judgement and the cancel a run may continue", wakes),
	signRule("that another lease has taken up", "its process was taken for dead, and goes on", isTakenUp),
	signRule("whose lease has expired", "its last activity is by another clock now: judge it again", losesLease),
	signRule("that was attached again", "another host took the run over after it was judged", attachesAgain),
	signRule("that has ended", "a run that finished while it was judged did not stall", finishes),
	{"a session that was put into a lease is neither claimed nor warned nor cancelled",
		"its process was taken for dead, and has claimed it back",
		func(e *env) {
			s := putSilent(e, homeRun, time.Hour)
			begin(e, homeLease)
			freshens(e, homeLease, activity(s, 0))
			spared(e, s)
		}},
	{"a run without a row is neither claimed nor warned",
		"somebody may delete a row while it is judged",
		func(e *env) {
			s := silentSession("unknown", noon, time.Hour)
			claims(e, s, by, session.Changed)
			warns(e, s, session.Changed)
			recorded(e, s.RunID)
		}},
}

// signRule is the rule that nothing is done to a session that has changed since it was judged.
func signRule(which, why string, change sign) rule {
	return rule{"a session " + which + " is neither claimed nor warned nor cancelled", why, func(e *env) {
		l, judged := vouchedFor(e, session.Freshness{Activity: 0, Quiet: true})
		change(e, l, judged)
		spared(e, judged)
	}}
}

// spared checks that a session that is not as it was judged is neither claimed nor warned nor cancelled.
func spared(e *env, judged session.Session) {
	before := look(e, judged.RunID)
	claims(e, judged, by, session.Changed)
	warns(e, judged, session.Changed)
	cancels(e, judged, session.Changed)
	looksLike(e, before)
	recorded(e, judged.RunID)
}
