package sessiontest

import (
	"time"

	"github.com/seed62658d38/watchdog/session"
)

var expiredRules = []rule{
	{"a session that left an expired lease says which, whoever reads it, and no other does",
		"every sweeper ends it because its process died, and says what was seen of that",
		func(e *env) {
			live := attachLeased(e, awayLease, "live")
			l, s := vouchedFor(e, session.Freshness{Activity: time.Hour})
			l = expireSeen(e, l)
			namesExpired(look(e, s.RunID), l)
			namesExpired(findsOne(e), l)
			if _, ok := e.Store.(session.Lister); ok {
				for _, listed := range list(e, session.ListQuery{}).Sessions {
					if listed.RunID == s.RunID {
						namesExpired(listed, l)
					}
				}
			}
			namesExpired(look(e, live.RunID), session.Lease{})
		}},
	{"a session that leaves an expired lease late says which, too",
		"its row was locked, or there were too many for one transaction",
		func(e *env) {
			l, left := expireMost(e)
			l.Looks, l.RenewedAt = 5, noon
			namesExpired(left, session.Lease{})
			expires(e, l, true, 0)
			namesExpired(look(e, left.RunID), l)
		}},
	{"a session that is claimed back forgets the lease that expired, for good",
		"its process lives: if it is silent after that, it is not because it died",
		func(e *env) {
			expireOne(e, "back")
			begin(e, awayLease)
			freshens(e, awayLease, session.Freshness{RunID: "back", Attempt: 1, Activity: time.Second})
			namesExpired(look(e, "back"), session.Lease{})
			finish(e, "back")
			namesExpired(look(e, "back"), session.Lease{})
		}},
	{"the next attempt of a session knows no lease that expired",
		"the process of the attempt before died, and this one may live",
		func(e *env) {
			expireOne(e, "again")
			namesExpired(attach(e, newSession("again")), session.Lease{})
			namesExpired(look(e, "again"), session.Lease{})
		}},
	{"a session keeps the lease that expired while it is claimed and warned, and when it was cancelled",
		"a sweeper that dies between claim and cancel leaves it to another, and a cancel in doubt is looked up",
		func(e *env) {
			for runID, call := range map[string]func(judged session.Session){
				"warned":  func(s session.Session) { warns(e, s, session.Done) },
				"claimed": func(s session.Session) { claims(e, s, by, session.Done) },
				"kept":    func(s session.Session) { cancels(e, s, session.Done) },
			} {
				l := expireOne(e, runID)
				call(look(e, runID))
				namesExpired(look(e, runID), l)
			}
		}},
}

// expireOne attaches to a run under a lease and expires that.
func expireOne(e *env, runID string) session.Lease {
	l := begin(e, homeLease)
	attachUnder(e, homeLease, runID)
	return expireSeen(e, l)
}

// expireSeen expires a lease as a sweeper does which looked at it four times. It does not say that the session is lost.
func expireSeen(e *env, l session.Lease) session.Lease {
	l.Looks, l.RenewedAt = 4, noon.Add(123456*time.Microsecond)
	expires(e, l, true, 0)
	return l
}

// namesExpired checks which expired lease a row names; that with a zero ID is none.
func namesExpired(s session.Session, want session.Lease) {
	got := s.Expired
	require(got.ID == want.ID && got.Looks == want.Looks && got.RenewedAt.Equal(want.RenewedAt),
		"%s, in attempt %d, names the expired lease %+v, want %q after %d looks, renewed at %v",
		s.RunID, s.Attempt, got, want.ID, want.Looks, want.RenewedAt)
}

var lostRules = []rule{
	{"a session is lost if its process was, until a process takes it up or it ends",
		"sweepers end the sessions of a process that was seen to die without a cap, and those of one that stopped with it",
		func(e *env) {
			leaveAll(e, true, "claimed", "attached", "ended", "left")
			begin(e, awayLease)
			attach(e, newSession("attached"))
			freshens(e, awayLease, session.Freshness{RunID: "claimed", Attempt: 1, Activity: time.Second})
			finish(e, "ended")
			areLost(e, false, "claimed", "attached", "ended")
			areLost(e, true, "left")
		}},
	{"a session that was not lost with its lease is not lost",
		"what stopped, or was seen to die with a whole fleet, is ended as slowly as what only looks stalled",
		func(e *env) { leaveAll(e, false, "stopped") }},
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
