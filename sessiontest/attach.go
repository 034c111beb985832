package sessiontest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var attachRules = []rule{
	{"a new run gets an active row, created now and last active now, with attempt 1",
		"a row without a start time cannot be judged, and one that starts in the past is cancelled at once", func(e *env) {
			from := clockOf(e)
			s := attach(e, newSession(homeRun))
			to := clockOf(e)
			require(s.Status == session.Active && s.Attempt == 1 && s.Reason == "" && s.Resumes == 0, "the row is %+v", s)
			within("CreatedAt", s.CreatedAt, from, to)
			within("LastEventAt", s.LastEventAt, from, to)
		}},
	{"before the first attach the attempt is 0",
		"a watchdog records a lost attempt if there was an attempt before and it did not end", func(e *env) {
			before, _, err := e.Store.Attach(e.Ctx, newSession(homeRun))
			must(err, "attach")
			require(before.Attempt == 0, "before the first attempt the row was %+v", before)
		}},
	{"attaching again counts the attempt",
		"writes of a lost attempt must not count as writes of the new one", func(e *env) {
			for n := range 3 {
				s := attach(e, newSession(homeRun))
				require(s.Attempt == n+1, "attempt %d has the number %d", n+1, s.Attempt)
			}
		}},
	{"attaching again returns the row as it was",
		"if the row was still active, the attempt before was lost: nothing else shows that", func(e *env) {
			first := attach(e, row{RunID: homeRun, Parent: "p", Threshold: time.Hour, StartedAt: noon, Host: "first"})
			before, _, err := e.Store.Attach(e.Ctx, newSession(homeRun))
			must(err, "attach again")
			equal(before, first)
		}},
	{"attaching again makes an ended session active and clears its reason",
		"if the row of a resumed run stays cancelled, its own watchdog ends the run again", func(e *env) {
			s := attach(e, newSession(homeRun))
			end(e, session.Ending{RunID: homeRun, Attempt: s.Attempt, Status: session.Cancelled, Reason: why})
			s = attach(e, newSession(homeRun))
			require(s.Status == session.Active && s.Reason == "", "it is %s with the reason %q", s.Status, string(s.Reason))
		}},
	{"attaching again keeps the creation time and the number of resumes",
		"a policy that resumes a run at most three times counts in its row", given(silent, func(e *env, s row) {
			c := cancelOf(homeRun)
			c.Resumes = 2
			cancelsAs(e, s, c, session.Done)
			after := attach(e, newSession(homeRun))
			require(after.CreatedAt.Equal(s.CreatedAt) && after.Resumes == 2, "the row is %+v, was %+v", after, s)
		})},
	{"attaching again sets parent, threshold, window and host, and the last event to now",
		"a run that moved must be found on its new host, and not be stalled by the silence of the old one", func(e *env) {
			old := putSilent(e, homeRun, time.Hour)
			want := row{
				RunID: homeRun, Parent: "other", Threshold: watchdog.NoLimit, StartedAt: noon.Add(time.Hour), Host: "host-2",
			}
			got := attach(e, want)
			require(got.Parent == want.Parent && got.Threshold == want.Threshold &&
				got.StartedAt.Equal(want.StartedAt) && got.Host == want.Host, "the row is %+v", got)
			from := old.LastEventAt.Add(time.Hour)
			within("LastEventAt", got.LastEventAt, from, from.Add(time.Hour))
		}},
	{"callers that attach to one run at once get different attempts",
		"two attempts with one number would keep each other's row fresh", func(e *env) {
			attempts := make([]int, 8)
			contract.StepsAtOnce(len(attempts), func(caller int) { attempts[caller] = attach(e, newSession(homeRun)).Attempt })
			slices.Sort(attempts)
			require(slices.Equal(attempts, []int{1, 2, 3, 4, 5, 6, 7, 8}), "the attempts are %v, want 1 to 8", attempts)
		}},
	{"attaching under a lease names it, without an activity",
		"the activity of the attempt before was by another clock", func(e *env) {
			for range 2 {
				s := attachLeased(e, homeLease, homeRun)
				require(s.Lease == homeLease && s.Activity == session.NoActivity && s.Silence == 0, "attached as %+v", s)
				looksLike(e, s)
				freshens(e, homeLease, quietSince(s, time.Hour))
			}
		}},
	{"attaching again clears the lease, the warning, the claim and the state of the attempt before",
		"the new attempt would be cancelled after the warning of the old one", func(e *env) {
			_, s := vouchedFor(e, freshness{Activity: time.Hour, Quiet: true, State: json.RawMessage(`{"phase":"first"}`)})
			warns(e, s, session.Done)
			claims(e, s, by, session.Done)
			s = attach(e, newSession(homeRun))
			want := row{
				RunID: homeRun, Status: session.Active, CreatedAt: s.CreatedAt, LastEventAt: s.LastEventAt, StartedAt: noon,
				Host: host, Attempt: 2,
			}
			equal(s, want)
			looksLike(e, want)
			claims(e, s, "pass-2", session.Done)
		}},
	{"attaching again clears that the agents could not be stopped",
		"it says nothing about the new attempt", func(e *env) {
			c := cancelOf(homeRun)
			c.StopFailed = true
			cancelsAs(e, putSilent(e, homeRun, time.Hour), c, session.Done)
			s := attach(e, newSession(homeRun))
			require(!s.StopFailed && s.Claim == "", "the row is %+v", s)
			looksLike(e, s)
		}},
	{"attaching with an attempt makes a lost row again, with that attempt",
		"after a failover the database may have forgotten the row of a live run, or its latest attempt", func(e *env) {
			for _, attempt := range []int{3, 7} { // without a row, and with an older one
				lost := newSession(homeRun)
				lost.Attempt = attempt
				s := attach(e, lost)
				require(s.Attempt == attempt && s.Status == session.Active, "the row is %+v, want the attempt %d", s, attempt)
				looksLike(e, s)
			}
		}},
	{"attaching with an attempt that is in the row, or is over, changes nothing",
		"the row was not lost: a process that has been taken over would take its run back", func(e *env) {
			for _, status := range []session.Status{session.Active, session.Cancelled} {
				s := silentSession(string(status), clockOf(e), time.Hour)
				s.Status, s.Attempt = status, 3
				put(e, s)
				for _, attempt := range []int{3, 2} {
					lost := row{RunID: s.RunID, Host: "host-2", Attempt: attempt, StartedAt: noon}
					before, after, err := e.Store.Attach(e.Ctx, lost)
					must(err, "attach with the attempt %d", attempt)
					equal(before, s)
					equal(after, s)
					looksLike(e, s)
				}
			}
		}},
	{"a lease is told of an attempt that is followed by another before it ended",
		"two processes run one run until the first learns that it was taken over", func(e *env) {
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
		"a process whose run goes on elsewhere must end it now; but each start of a run would wake every host", func(e *env) {
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
		"a page shows the runs of other hosts by it", func(e *env) {
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
				require(contract.SameJSON(after.State, s.State), "the state is %q, want %q", after.State, state)
				looksLike(e, after)
			}
		}},
}
