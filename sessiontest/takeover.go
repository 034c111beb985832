package sessiontest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

var takeoverRules = []rule{
	{"attaching under a lease names it, without an activity",
		"the activity of the attempt before was by another clock",
		func(e *env) {
			for range 2 {
				s := attachLeased(e, homeLease, homeRun)
				require(s.Lease == homeLease && s.Activity == session.NoActivity && s.Silence == 0, "attached as %+v", s)
				looksLike(e, s)
				freshens(e, homeLease, quietSince(s, time.Hour))
			}
		}},
	{"attaching again clears the lease, the warning, the claim and the state of the attempt before",
		"the new attempt would be cancelled after the warning of the old one",
		func(e *env) {
			_, s := vouchedFor(e,
				session.Freshness{Activity: time.Hour, Quiet: true, State: json.RawMessage(`{"phase":"first"}`)})
			warns(e, s, session.Done)
			claims(e, s, by, session.Done)
			s = attach(e, newSession(homeRun))
			want := session.Session{
				RunID: homeRun, Status: session.Active, CreatedAt: s.CreatedAt, LastEventAt: s.LastEventAt, StartedAt: noon,
				Host: host, Attempt: 2,
			}
			equal(s, want)
			looksLike(e, want)
			claims(e, s, "pass-2", session.Done)
		}},
	{"attaching again clears that the agents could not be stopped",
		"it says nothing about the new attempt",
		func(e *env) {
			c := cancelOf(homeRun)
			c.StopFailed = true
			cancelsAs(e, putSilent(e, homeRun, time.Hour), c, session.Done)
			s := attach(e, newSession(homeRun))
			require(!s.StopFailed && s.Claim == "", "the row is %+v", s)
			looksLike(e, s)
		}},
	{"attaching with an attempt makes a lost row again, with that attempt",
		"after a failover the database may have forgotten the row of a live run, or its latest attempt",
		func(e *env) {
			for _, attempt := range []int{3, 7} { // without a row, and with an older one
				lost := newSession(homeRun)
				lost.Attempt = attempt
				s := attach(e, lost)
				require(s.Attempt == attempt && s.Status == session.Active, "the row is %+v, want the attempt %d", s, attempt)
				looksLike(e, s)
			}
		}},
	{"attaching with an attempt that is in the row, or is over, changes nothing",
		"the row was not lost: a process that has been taken over would take its run back",
		func(e *env) {
			for _, status := range []session.Status{session.Active, session.Cancelled} {
				s := silentSession(string(status), clockOf(e), time.Hour)
				s.Status, s.Attempt = status, 3
				put(e, s)
				for _, attempt := range []int{3, 2} {
					lost := session.Session{RunID: s.RunID, Host: "host-2", Attempt: attempt, StartedAt: noon}
					before, after, err := e.Store.Attach(e.Ctx, lost)
					must(err, "attach with the attempt %d", attempt)
					equal(before, s)
					equal(after, s)
					looksLike(e, s)
				}
			}
		}},
	{"a lease is told of an attempt that is followed by another before it ended",
		"two processes run one run until the first learns that it was taken over",
		func(e *env) {
			before := attachEach(e, homeLease, "again", "lost", "ended")
			lost := newSession("lost")
			lost.Attempt = 4
			end(e, session.Ending{RunID: "ended", Attempt: 1, Status: session.Interrupted})
			attachEach(e, awayLease, "again", "ended", "new")
			attach(e, lost)
			tells(e, homeLease, nil, attemptsOf(before[:2])...)
			tells(e, awayLease, nil)
		}},
	{"a listener is notified of each takeover, and of no other attach",
		"a process whose run goes on elsewhere must end it now; but each start of a run would wake every host",
		func(e *env) {
			attach(e, newSession("ended"))
			finish(e, "ended")
			listening(e, func(told <-chan string) {
				for _, runID := range []string{"ended", "new", "taken over", "taken over"} {
					attach(e, newSession(runID))
				}
				receives(e, told, "taken over")
			})
		}},
	{"a state is read as it was written",
		"a page shows the runs of other hosts by it",
		func(e *env) {
			for i, state := range []string{
				"", `{}`, `{"phase":"tests","wall_clock_seconds":14400.5,"warned":2,"wrapped_up":true}`,
				`{"phase":"it's \"quoted\" \\ and\nbroken — über 日本語 🜁"}`,
				`{"n":12345678901234567890.125,"a":[1,null,{"b":[]}]}`,
			} {
				s := newSession(fmt.Sprint("run-", i))
				if s.State = json.RawMessage(state); state == "" {
					s.State = nil
				}
				after := attach(e, s)
				require(string(canonical(after.State)) == string(canonical(s.State)),
					"the state is %q, want %q", after.State, state)
				looksLike(e, after)
			}
		}},
}
