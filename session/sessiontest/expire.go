package sessiontest

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

var expireRules = []rule{
	{"a lease that was renewed since it was observed does not expire, and one that is not there has",
		"between the last look and the end of a lease its process may write, and the second of two sweepers finds nothing",
		given2(vouching(freshness{Activity: time.Hour}), func(e *env, l lease, s row) {
			next := vouch(e, l, l.Vouched+time.Second)
			expires(e, l, false, 1)
			leaseIs(e, next)
			looksLike(e, s)
			expires(e, lease{ID: "unknown", Beat: 1}, true, 0)
		})},
	{"a session leaves its lease with the time of its last activity, or of its attach if that was later",
		"its silence counts from there, by the database's clock; and in SQLite the greater one of NULL and a time is NULL",
		func(e *env) {
			l, s := vouchedAfter(e, day, freshness{Activity: 9*time.Hour + 30*time.Minute, Quiet: true})
			leaves(e, l, s, observe(e, l.ID).RenewedAt.Add(-30*time.Minute-lag))
			l, s = vouchedAfter(e, day, freshness{Activity: session.NoActivity})
			leaves(e, l, s, s.LastEventAt)
			l, s = vouchedFor(e, freshness{Activity: 0})
			leaves(e, l, s, s.LastEventAt)
			s = putEventless(e)
			l = beginAt(e, homeLease, 2*time.Hour)
			freshens(e, homeLease, activity(s, time.Hour))
			leaves(e, l, s, observe(e, homeLease).RenewedAt.Add(-time.Hour-lag))
		}},
	{"a session that left its lease is judged by its own threshold again, and others by the query's",
		"nobody else ends the sessions of a dead process", given(clockOf, func(e *env, now time.Time) {
			long := withThreshold(silentSession("long", now, 30*time.Minute), time.Hour)
			short := withThreshold(silentSession("short", now, 5*time.Minute), time.Minute)
			usual := silentSession("usual", now, time.Hour)
			put(e, long, short, usual)
			l := begin(e, homeLease)
			for _, s := range []row{long, short, usual} {
				freshens(e, homeLease, activity(s, session.NoActivity))
			}
			expires(e, l, true, 0)
			findsOnly(e, "usual", "short")
			looksLike(e, long)
		})},
	{"an expired lease takes only its own active sessions with it, and is deleted after the last",
		"leases of dead processes would pile up, and each of them is observed at every promise", func(e *env) {
			l := begin(e, homeLease)
			attachUnder(e, homeLease, "dead")
			attachUnder(e, homeLease, "ended")
			finish(e, "ended")
			ended := look(e, "ended")
			live := attachLeased(e, awayLease, "live")
			expires(e, l, true, 0)
			looksLike(e, ended)
			looksLike(e, live)
			noLease(e, homeLease)
			leads(e, awayLease, session.AttemptID{RunID: "live", Attempt: 1})
		}},
	{"an unreadable session leaves its lease like others",
		"it would keep its lease for ever", given2(vouching(freshness{Activity: time.Hour}), func(e *env, l lease, s row) {
			attachUnder(e, l.ID, "run-2")
			spoil(e, s.RunID)
			expires(e, l, true, 0)
			noLease(e, l.ID)
		})},
	{"sessions leave an expired lease in batches, whatever beat the later calls name",
		"ten thousand rows in one transaction would hold up all others", func(e *env) {
			l := beginMany(e)
			expires(e, l, true, 1)
			onlyNamed(e, l)
			l.Beat++
			expires(e, l, true, 0)
			noLease(e, l.ID)
		}},
	{"a lease that has expired never lives again: nothing is attached under it, and nothing freshened",
		"its process must know that its runs may have been cancelled: they would be guarded by nobody",
		given2(expireMost, func(e *env, l lease, left row) {
			next := l
			next.Beat++
			refused("BeginLease", e.Store.BeginLease(e.Ctx, l))
			refused("RenewLease", e.Store.RenewLease(e.Ctx, next))
			for _, lease := range []string{l.ID, "unknown"} {
				for _, runID := range []string{left.RunID, "new"} {
					_, _, err := e.Store.Attach(e.Ctx, underLease(newSession(runID), lease))
					refused("Attach", err)
				}
				_, err := e.Store.Freshen(e.Ctx, lease, []freshness{activity(left, time.Hour)})
				refused("Freshen", err)
				s, err := e.Store.Session(e.Ctx, "new")
				require(err != nil, "the new run has the row %+v", s)
				looksLike(e, left)
			}
			l.Expired = true
			leaseIs(e, l)
		})},
	{"a keeper claims back the sessions that still name its expired lease",
		"a process that stood still for a minute has its runs again", given2(expireMost, func(e *env, l lease, left row) {
			left.Lease, left.Activity, left.Silence = begin(e, awayLease).ID, time.Second, 0
			freshens(e, awayLease, activity(left, left.Activity))
			expires(e, l, true, 0)
			looksLike(e, left)
			leads(e, awayLease, attemptsOf([]row{left})...)
		})},
	{"a session that still names an expired lease is not stalled, and is not cancelled",
		"its silence is not vouched for any more, and the database's clock does not count yet", func(e *env) {
			l := beginMany(e)
			all := session.Query{Threshold: threshold, Limit: 2 * session.ExpireBatch}
			stalled := find(e, all).Sessions
			left := expireBatch(e, l)
			i := slices.Index(names(stalled), left.RunID)
			require(i >= 0, "%s was not stalled before", left.RunID)
			cancels(e, stalled[i], session.Changed)
			looksLike(e, left)
			require(!slices.Contains(names(find(e, all).Sessions), left.RunID), "%s is stalled", left.RunID)
		}},
	{"a session that left an expired lease says which, whoever reads it, and no other does",
		"every sweeper ends it because its process died, and says what was seen of that", func(e *env) {
			live := attachLeased(e, awayLease, "live")
			l, s := vouchedFor(e, freshness{Activity: time.Hour})
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
			namesExpired(look(e, live.RunID), lease{})
		}},
	{"a session that leaves an expired lease late says which, too",
		"its row was locked, or there were too many for one transaction", given2(expireMost, func(e *env, l lease, left row) {
			l.Looks, l.RenewedAt = 5, noon
			namesExpired(left, lease{})
			expires(e, l, true, 0)
			namesExpired(look(e, left.RunID), l)
		})},
	{"a session that is claimed back forgets the lease that expired, for good, and its next attempt knows none",
		"its process lives: if it is silent after that, it is not because it died", func(e *env) {
			expireOne(e, "back")
			expireOne(e, "again")
			begin(e, awayLease)
			freshens(e, awayLease, freshness{RunID: "back", Attempt: 1, Activity: time.Second})
			namesExpired(look(e, "back"), lease{})
			finish(e, "back")
			namesExpired(look(e, "back"), lease{})
			namesExpired(attach(e, newSession("again")), lease{})
			namesExpired(look(e, "again"), lease{})
		}},
	{"a session keeps the lease that expired while it is claimed and warned, and when it was cancelled",
		"a sweeper that dies between claim and cancel leaves it to another, and looks up a cancel in doubt", func(e *env) {
			for runID, call := range map[string]func(judged row){
				"warned":  func(s row) { warns(e, s, session.Done) },
				"claimed": func(s row) { claims(e, s, by, session.Done) },
				"kept":    func(s row) { cancels(e, s, session.Done) },
			} {
				l := expireOne(e, runID)
				call(look(e, runID))
				namesExpired(look(e, runID), l)
			}
		}},
	{"a session is lost if its process was, and only then, until a process takes it up or it ends",
		"sweepers end the sessions of a process that was seen to die without a cap, and all others with it", func(e *env) {
			leaveAll(e, false, "stopped")
			leaveAll(e, true, "claimed", "attached", "ended", "left")
			begin(e, awayLease)
			attach(e, newSession("attached"))
			freshens(e, awayLease, freshness{RunID: "claimed", Attempt: 1, Activity: time.Second})
			finish(e, "ended")
			areLost(e, false, "claimed", "attached", "ended")
			areLost(e, true, "left")
		}},
}

// leaves expires the lease of a session, and checks its row.
func leaves(e *env, l lease, s row, lastEventAt time.Time) {
	expires(e, l, true, 0)
	s.Lease, s.Activity, s.Silence, s.LastEventAt = "", 0, 0, lastEventAt
	looksLike(e, s)
}

// beginMany begins a lease with one session more than leave it at once. They have been silent for nine hours.
func beginMany(e *env) lease {
	now := clockOf(e)
	var rows []row
	var fresh []freshness
	for i := range session.ExpireBatch + 1 {
		s := silentSession(fmt.Sprintf("run-%04d", i), now, time.Minute)
		rows = append(rows, s)
		fresh = append(fresh, quietSince(s, time.Hour))
	}
	put(e, rows...)
	l := beginAt(e, homeLease, 10*time.Hour)
	freshens(e, l.ID, fresh...)
	return l
}

// expireMost returns an expired lease that one session still names, and the session.
func expireMost(e *env) (lease, row) {
	l := beginMany(e)
	return l, expireBatch(e, l)
}

// expireBatch expires a lease, and returns the session that still names it.
func expireBatch(e *env, l lease) row {
	_, _, err := e.Store.ExpireLease(e.Ctx, l)
	must(err, "expire the lease %s", l.ID)
	return look(e, onlyNamed(e, l))
}

// onlyNamed returns the only run whose row names a lease.
func onlyNamed(e *env, l lease) string {
	left, err := e.Store.LeaseSessions(e.Ctx, l.ID)
	must(err, "read the sessions of %s", l.ID)
	require(len(left) == 1, "%d sessions still name the lease, want 1", len(left))
	return left[0].RunID
}

// expireOne attaches to a run under a lease and expires that.
func expireOne(e *env, runID string) lease {
	l := begin(e, homeLease)
	attachUnder(e, homeLease, runID)
	return expireSeen(e, l)
}

// expireSeen expires a lease as a sweeper does which looked at it four times. It does not say that the session is lost.
func expireSeen(e *env, l lease) lease {
	l.Looks, l.RenewedAt = 4, noon.Add(123456*time.Microsecond)
	expires(e, l, true, 0)
	return l
}

// namesExpired checks which expired lease a row names; that with a zero ID is none.
func namesExpired(s row, want lease) {
	got := s.Expired
	require(got.ID == want.ID && got.Looks == want.Looks && got.RenewedAt.Equal(want.RenewedAt),
		"%s, in attempt %d, names the expired lease %+v, want %+v", s.RunID, s.Attempt, got, want)
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
