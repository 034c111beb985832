package sessiontest

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

var claimRules = []rule{
	{"a claimed session names the pass, and is as it was otherwise",
		"the pass judges it once more, and cancels it as it was judged",
		func(e *env) {
			_, s := vouchedFor(e, session.Freshness{Activity: time.Hour, Quiet: true})
			claims(e, s, by, session.Done)
			s.Claim = by
			looksLike(e, s)
			findsOnly(e, homeRun)
		}},
	{"while a claim lasts, nobody else claims, warns or cancels",
		"the agents of a session are stopped once, whichever sweepers race",
		func(e *env) {
			s := claimed(e, time.Hour)
			other, nobody := cancelOf(homeRun), cancelOf(homeRun)
			other.By, nobody.By = "pass-2", ""
			claims(e, s, "pass-2", session.Taken)
			warns(e, s, session.Taken)
			cancelsAs(e, s, other, session.Taken)
			cancelsAs(e, s, nobody, session.Taken)
			stands(e, s)
		}},
	{"the pass that claimed a session can claim it again, and cancel it",
		"the answer to the first claim may have been lost",
		func(e *env) {
			s := claimed(e, time.Hour)
			claims(e, s, by, session.Done)
			cancels(e, s, session.Done)
		}},
	{"a claim that is over does not count",
		"a sweeper that died with a claim would keep the session for ever",
		func(e *env) {
			s := claimed(e, 0)
			for i := range 50 { // the clock may show the end of the claim before
				claimsFor(e, s, fmt.Sprint("short-", i), 0, session.Done)
			}
			claims(e, s, "pass-2", session.Done)
			claims(e, s, by, session.Taken)
			s.Claim = "pass-2"
			looksLike(e, s)
		}},
	{"a claim lasts as long as its pass said last",
		"a pass that needs longer claims again, and one that gives up claims for no time",
		func(e *env) {
			s, c := claimed(e, time.Hour), cancelOf(homeRun)
			c.By = "pass-2"
			claimsFor(e, s, by, 0, session.Done)
			cancelsAs(e, s, c, session.Done)
		}},
	{"of eight claims at once one counts",
		"several sweepers on several hosts may judge one session in the same second",
		func(e *env) {
			eachRound(e, func(_ int, s session.Session) {
				winner := onlyWinner(session.Taken, func(caller int) (session.Outcome, error) {
					return e.Store.Claim(e.Ctx, s, session.ClaimRequest{By: fmt.Sprint("pass-", caller), For: time.Hour})
				})
				s.Claim = fmt.Sprint("pass-", winner)
				looksLike(e, s)
			})
		}},
	{"a warning is noted with its events, and the time",
		"the run learns of it from its events, and a sweeper from the row when its grace is over",
		func(e *env) {
			_, s := vouchedFor(e, session.Freshness{Activity: time.Hour, Quiet: true})
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
		"a run that does not know of its warning would be cancelled without one",
		func(e *env) {
			s := putSilent(e, homeRun, time.Hour)
			second := warning(homeRun)
			second.ID = ""
			outcome, err := e.Store.Warn(e.Ctx, s, []watchdog.Event{warning(homeRun), second})
			invalid(outcome, err)
			stands(e, s)
		}},
	voidRule("an activity", wakes),
	voidRule("another lease", isTakenUp),
	voidRule("the death of its process", losesLease),
	{"a warning stands until the session gives a sign of life",
		"a keeper writes a quiet row again and again, and renews its lease: a grace would never be over",
		func(e *env) {
			l, s := warned(e)
			f := quietSince(s, s.Activity)
			f.State = []byte(`{"warned":1}`)
			freshens(e, l.ID, f)
			vouch(e, l, l.Vouched+time.Second)
			s.State, s.Silence = f.State, s.Silence+time.Second
			looksLike(e, s)
		}},
	{"a session that was warned is claimed and cancelled like others",
		"a warning is no sign of life",
		func(e *env) {
			_, s := warned(e)
			before := s
			before.WarnedAt = time.Time{}
			claims(e, before, by, session.Done)
			claims(e, s, by, session.Done)
			cancels(e, s, session.Done)
		}},
}

// claimed returns a session that a pass has claimed.
func claimed(e *env, length time.Duration) session.Session {
	s := putSilent(e, homeRun, time.Hour)
	claimsFor(e, s, by, length, session.Done)
	s.Claim = by
	return s
}

// warned returns a quiet session of a lease that was warned.
func warned(e *env) (session.Lease, session.Session) {
	l, s := vouchedFor(e, session.Freshness{Activity: 0, Quiet: true})
	warns(e, s, session.Done)
	s = look(e, s.RunID)
	require(!s.WarnedAt.IsZero(), "the row does not say that the session was warned")
	return l, s
}

// voidRule is the rule that a sign of life makes a warning void.
func voidRule(after string, give sign) rule {
	return rule{"a warning is void after " + after, "the session would be cancelled without a warning of its next silence",
		func(e *env) {
			l, s := warned(e)
			give(e, l, s)
			got := look(e, s.RunID)
			require(got.WarnedAt.IsZero(), "the row is %+v", got)
		}}
}
