package sessiontest

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var claimRules = []rule{
	{"a claimed session names the pass, and is as it was otherwise",
		"the pass judges it once more, and cancels it as it was judged", func(e *env) {
			_, s := vouchedFor(e, freshness{Activity: time.Hour, Quiet: true})
			claims(e, s, by, session.Done)
			s.Claim = by
			looksLike(e, s)
			findsOnly(e, homeRun)
		}},
	{"while a claim lasts, nobody else claims, warns or cancels",
		"the agents of a session are stopped once, whichever sweepers race", given(claimed, func(e *env, s row) {
			other, nobody := cancelOf(homeRun), cancelOf(homeRun)
			other.By, nobody.By = "pass-2", ""
			claims(e, s, "pass-2", session.Taken)
			warns(e, s, session.Taken)
			cancelsAs(e, s, other, session.Taken)
			cancelsAs(e, s, nobody, session.Taken)
			stands(e, s)
		})},
	{"the pass that claimed a session can claim it again, and cancel it",
		"the answer to the first claim may have been lost", given(claimed, func(e *env, s row) {
			claims(e, s, by, session.Done)
			cancels(e, s, session.Done)
		})},
	{"a claim that is over does not count",
		"a sweeper that died with a claim would keep the session for ever", given(silent, func(e *env, s row) {
			for i := range 50 { // the clock may show the end of the claim before
				claimsFor(e, s, fmt.Sprint("short-", i), 0, session.Done)
			}
			claims(e, s, "pass-2", session.Done)
			claims(e, s, by, session.Taken)
			s.Claim = "pass-2"
			looksLike(e, s)
		})},
	{"a claim lasts as long as its pass said last",
		"a pass that needs longer claims again, and one that gives up claims for no time", func(e *env) {
			s, c := claimed(e), cancelOf(homeRun)
			c.By = "pass-2"
			claimsFor(e, s, by, 0, session.Done)
			cancelsAs(e, s, c, session.Done)
		}},
	{"of eight claims at once one counts",
		"several sweepers on several hosts may judge one session in one second", eachRound(func(e *env, _ int, s row) {
			winner := onlyWinner(session.Taken, func(caller int) (session.Outcome, error) {
				return e.Store.Claim(e.Ctx, s, session.ClaimRequest{By: fmt.Sprint("pass-", caller), For: time.Hour})
			})
			s.Claim = fmt.Sprint("pass-", winner)
			looksLike(e, s)
		})},
	{"a warning is noted with its events, and the time",
		"the run learns of it from its events, and a sweeper from the row when its grace is over", func(e *env) {
			_, s := vouchedFor(e, freshness{Activity: time.Hour, Quiet: true})
			from := clockOf(e)
			warns(e, s, session.Done)
			to := clockOf(e)
			got := look(e, homeRun)
			within("WarnedAt", got.WarnedAt, from, to)
			s.WarnedAt = got.WarnedAt
			equal(got, s)
			for _, found := range findUsual(e, 1).Sessions {
				equal(found, s)
			}
			recorded(e, homeRun, "warning of "+homeRun)
		}},
	{"a warning with an invalid event is an error and changes nothing",
		"a run that does not know of its warning would be cancelled without one", given(silent, func(e *env, s row) {
			second := warning(homeRun)
			second.ID = ""
			outcome, err := e.Store.Warn(e.Ctx, s, []watchdog.Event{warning(homeRun), second})
			invalid(outcome, err)
			stands(e, s)
		})},
	voidRule("an activity", wakes),
	voidRule("another lease", isTakenUp),
	voidRule("the death of its process", losesLease),
	{"a warning stands until the session gives a sign of life",
		"a keeper writes a quiet row again and again, and renews its lease: a grace would never be over",
		given2(warned, func(e *env, l lease, s row) {
			f := quietSince(s, s.Activity)
			f.State = []byte(`{"warned":1}`)
			freshens(e, l.ID, f)
			vouch(e, l, l.Vouched+time.Second)
			s.State, s.Silence = f.State, s.Silence+time.Second
			looksLike(e, s)
		})},
	{"a session that was warned is claimed and cancelled like others",
		"a warning is no sign of life", given2(warned, func(e *env, _ lease, s row) {
			before := s
			before.WarnedAt = time.Time{}
			claims(e, before, by, session.Done)
			claims(e, s, by, session.Done)
			cancels(e, s, session.Done)
		})},
	// What happens to a session after it was judged.
	signRule("that was active again", "between the judgement and the cancel a run may continue", wakes),
	signRule("that another lease has taken up", "its process was taken for dead, and goes on", isTakenUp),
	signRule("whose lease has expired", "its last activity is by another clock now: judge it again", losesLease),
	signRule("that was attached again", "another host took the run over after it was judged", attachesAgain),
	signRule("that has ended", "a run that finished while it was judged did not stall", finishes),
	{"a session that was put into a lease is neither claimed nor warned nor cancelled",
		"its process was taken for dead, and has claimed it back", given(silent, func(e *env, s row) {
			begin(e, homeLease)
			freshens(e, homeLease, activity(s, 0))
			spared(e, s)
		})},
	{"a run without a row is neither claimed nor warned",
		"somebody may delete a row while it is judged", func(e *env) {
			s := silentSession("unknown", noon, time.Hour)
			claims(e, s, by, session.Changed)
			warns(e, s, session.Changed)
			recorded(e, s.RunID)
		}},
	{"a claim can note that the agents were stopped, and whether that failed",
		"the sweeper that called the stop hook could not cancel the session, and no other must call it again", func(e *env) {
			for _, failed := range []bool{false, true} {
				s := stops(e, putSilent(e, fmt.Sprint("failed-", failed), time.Hour), failed)
				require(s.Stopped && s.StopFailed == failed, "after a stop that failed (%v) the row is %+v", failed, s)
				claimsFor(e, s, by, 0, session.Done)
				contract.Part("after another claim", func() { looksLike(e, s) })
			}
		}},
	{"a session that was judged before its agents were stopped cannot be claimed, and can be cancelled",
		"two sweepers have judged the session, and the second one claims it when the first has given up", func(e *env) {
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
		"only of one that was cancelled it is to be seen that they could not be", func(e *env) {
			stops(e, putSilent(e, homeRun, time.Hour), true)
			finish(e, homeRun)
			notStopped(look(e, homeRun))
		}},
	{"a warning and a stop are noted beside each other, each until the session gives a sign of life",
		"a grace and a stop hook can be set together", given2(warned, func(e *env, l lease, s row) {
			stopped := stops(e, s, false)
			require(!stopped.WarnedAt.IsZero(), "after the stop the row is %+v", stopped)
			freshens(e, l.ID, quietSince(s, s.Activity+time.Second))
			warns(e, look(e, s.RunID), session.Done)
			got := look(e, s.RunID)
			require(!got.WarnedAt.IsZero() && !got.Stopped, "after another warning the row is %+v", got)
		})},
	voidStopRule("an activity", wakes),
	voidStopRule("an attach", attachesAgain),
}

// claimed writes a session that a pass has claimed for an hour.
func claimed(e *env) row {
	s := silent(e)
	claims(e, s, by, session.Done)
	s.Claim = by
	return s
}

// warned returns a quiet session of a lease that was warned.
func warned(e *env) (lease, row) {
	l, s := vouchedFor(e, freshness{Activity: 0, Quiet: true})
	warns(e, s, session.Done)
	s = look(e, s.RunID)
	require(!s.WarnedAt.IsZero(), "the row does not say that the session was warned")
	return l, s
}

// voidRule is the rule that a sign of life makes a warning void.
func voidRule(after string, give sign) rule {
	return rule{"a warning is void after " + after, "the session would be cancelled without a warning of its next silence",
		given2(warned, func(e *env, l lease, s row) {
			give(e, l, s)
			got := look(e, s.RunID)
			require(got.WarnedAt.IsZero(), "the row is %+v", got)
		})}
}

// A sign changes a session of a lease that was judged. Each changes as little of the row as it can.
type sign func(e *env, l lease, s row)

func wakes(e *env, l lease, s row) { freshens(e, l.ID, quietSince(s, s.Activity+1)) }

func isTakenUp(e *env, _ lease, s row) {
	freshens(e, begin(e, awayLease).ID, quietSince(s, s.Activity))
}

func losesLease(e *env, l lease, _ row) { expires(e, l, true, 0) }

func attachesAgain(e *env, l lease, s row) { attachUnder(e, l.ID, s.RunID) }

func finishes(e *env, _ lease, s row) {
	end(e, session.Ending{RunID: s.RunID, Attempt: s.Attempt, Status: session.Finished, Age: day})
}

// signRule is the rule that nothing is done to a session that has changed since it was judged.
func signRule(which, why string, change sign) rule {
	return rule{"a session " + which + " is neither claimed nor warned nor cancelled", why, func(e *env) {
		l, judged := vouchedFor(e, freshness{Activity: 0, Quiet: true})
		change(e, l, judged)
		spared(e, judged)
	}}
}

// spared checks that a session that is not as it was judged is neither claimed nor warned nor cancelled.
func spared(e *env, judged row) {
	before := look(e, judged.RunID)
	claims(e, judged, by, session.Changed)
	warns(e, judged, session.Changed)
	cancels(e, judged, session.Changed)
	looksLike(e, before)
	recorded(e, judged.RunID)
}

// stops notes that the agents of a session were stopped, and returns its row.
func stops(e *env, s row, failed bool) row {
	c := session.ClaimRequest{By: by, EndID: "cancel of " + s.RunID, Stopped: true, StopFailed: failed}
	claimsAs(e, s, c, session.Done)
	return look(e, s.RunID)
}

func notStopped(s row) { require(!s.Stopped && !s.StopFailed, "the row is %+v", s) }

// voidStopRule is the rule that a sign of life makes the note of a stop void.
func voidStopRule(after string, give sign) rule {
	return rule{"the note that agents were stopped is void after " + after, "those of its next silence would run on",
		func(e *env) {
			l, s := vouchedFor(e, freshness{Activity: 0, Quiet: true})
			give(e, l, stops(e, s, true))
			got := look(e, s.RunID)
			notStopped(got)
			claims(e, got, by, session.Done)
		}}
}
