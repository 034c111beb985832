package sessiontest

import (
	"fmt"
	"time"

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
	{"while a claim lasts, only its pass claims again or cancels, and nobody warns",
		"the agents of a session are stopped once, whichever sweepers race; and an answer to a claim may have been lost",
		given(claimed, func(e *env, s row) {
			other, nobody := cancelOf(homeRun), cancelOf(homeRun)
			other.By, nobody.By = "pass-2", ""
			claims(e, s, "pass-2", session.Taken)
			warns(e, s, session.Taken)
			cancelsAs(e, s, other, session.Taken)
			cancelsAs(e, s, nobody, session.Taken)
			stands(e, s)
			claims(e, s, by, session.Done)
			cancels(e, s, session.Done)
		})},
	{"a claim lasts as long as its pass said last, and does not count when it is over",
		"a sweeper that died with a claim would keep the session for ever, and one that gives up claims for no time",
		given(silent, func(e *env, s row) {
			for i := range 50 { // the clock may show the end of the claim before
				claimsFor(e, s, fmt.Sprint("short-", i), 0, session.Done)
			}
			claims(e, s, "pass-2", session.Done)
			claims(e, s, by, session.Taken)
			s.Claim = "pass-2"
			looksLike(e, s)
			claimsFor(e, s, "pass-2", 0, session.Done)
			cancels(e, s, session.Done)
		})},
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
	{"a warning and the note of a stop are void after a sign of life, and when the session ends or its process has died",
		"a session would be cancelled without a warning of its next silence, or its agents would run on", func(e *env) {
			for i, give := range []sign{wakes, isTakenUp, attachesAgain, losesLease} {
				l, s := warned(e)
				s = stops(e, s, true)
				give(e, l, s)
				got := look(e, homeRun)
				require(got.WarnedAt.IsZero(), "after change %d the row is %+v", i, got)
				if i < 3 {
					notStopped(got)
					claimsFor(e, got, by, 0, session.Done)
				}
			}
			_, s := warned(e)
			stops(e, s, true)
			finish(e, homeRun)
			notStopped(look(e, homeRun))
		}},
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
	{"a session that has changed since it was judged is neither claimed nor warned nor cancelled",
		"its run goes on, has ended or was taken over, or its silence is by another clock: judge it again", func(e *env) {
			for _, c := range changes {
				contract.Part("one that "+c.name, func() {
					l, judged := c.judged(e)
					c.change(e, l, judged)
					spared(e, judged)
				})
			}
			unknown := silentSession("unknown", noon, time.Hour)
			claims(e, unknown, by, session.Changed)
			warns(e, unknown, session.Changed)
			cancels(e, unknown, session.Changed)
			recorded(e, unknown.RunID)
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
	{"a warning and a stop are noted beside each other, each until the session gives a sign of life",
		"a grace and a stop hook can be set together", given2(warned, func(e *env, l lease, s row) {
			stopped := stops(e, s, false)
			require(!stopped.WarnedAt.IsZero(), "after the stop the row is %+v", stopped)
			freshens(e, l.ID, quietSince(s, s.Activity+time.Second))
			warns(e, look(e, s.RunID), session.Done)
			got := look(e, s.RunID)
			require(!got.WarnedAt.IsZero() && !got.Stopped, "after another warning the row is %+v", got)
		})},
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

// changes are those of a session that was judged, in a lease or without one.
var changes = []struct {
	name   string
	judged func(e *env) (lease, row)
	change sign
}{
	{"was active", vouching(freshness{Activity: 0, Quiet: true}), wakes},
	{"is in another lease", vouching(freshness{Activity: 0, Quiet: true}), isTakenUp},
	{"has lost its lease", vouching(freshness{Activity: 0, Quiet: true}), losesLease},
	{"was attached again", vouching(freshness{Activity: 0, Quiet: true}), attachesAgain},
	{"has ended", vouching(freshness{Activity: 0, Quiet: true}), finishes},
	{"was put into a lease", leaseless(silent), isTakenUp},
	{"was active without a lease", leaseless(silent), edits(func(s *row) {
		s.LastEventAt = s.LastEventAt.Add(time.Microsecond)
	})},
	{"had its first event", leaseless(putEventless), edits(func(s *row) { s.LastEventAt = s.CreatedAt })},
	{"is in another attempt", leaseless(silent), edits(func(s *row) { s.Attempt++ })},
	{"has ended without a lease", leaseless(silent), edits(func(s *row) { s.Status = session.Finished })},
}

func leaseless(write func(e *env) row) func(e *env) (lease, row) {
	return func(e *env) (lease, row) { return lease{}, write(e) }
}

func edits(change func(s *row)) sign {
	return func(e *env, _ lease, s row) {
		change(&s)
		put(e, s)
	}
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
