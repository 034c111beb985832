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
	{"a new run gets an active row, created now and last active now, with attempt 1, and had none before",
		"a row without a start time cannot be judged, and one that starts in the past is cancelled at once", func(e *env) {
			from := clockOf(e)
			before, s, err := e.Store.Attach(e.Ctx, newSession(homeRun))
			must(err, "attach")
			to := clockOf(e)
			require(before.Attempt == 0, "before the first attempt the row was %+v", before)
			within("CreatedAt", s.CreatedAt, from, to)
			within("LastEventAt", s.LastEventAt, from, to)
			equal(s, row{
				RunID: homeRun, Status: session.Active, CreatedAt: s.CreatedAt, LastEventAt: s.LastEventAt, StartedAt: noon,
				Host: host, Attempt: 1,
			})
		}},
	{"attaching again counts the attempt, and returns the row as it was",
		"writes of a lost attempt must not count as writes of the new one, and only the old row shows that it was lost",
		func(e *env) {
			last := attach(e, row{RunID: homeRun, Parent: "p", Threshold: time.Hour, StartedAt: noon, Host: "first"})
			for n := 2; n <= 3; n++ {
				before, after, err := e.Store.Attach(e.Ctx, newSession(homeRun))
				must(err, "attach again")
				equal(before, last)
				require(after.Attempt == n, "attempt %d has the number %d", n, after.Attempt)
				last = after
			}
		}},
	{"attaching again keeps when the row was made and how often its run was resumed, and nothing else",
		"the new attempt would be stalled by the silence of the old one, cancelled after its warning, or ended by its end",
		func(e *env) {
			_, s := vouchedFor(e, freshness{Activity: time.Hour, Quiet: true, State: json.RawMessage(`{"phase":"first"}`)})
			warns(e, s, session.Done)
			claims(e, s, by, session.Done)
			want := row{
				RunID: homeRun, Status: session.Active, Parent: "other", Threshold: watchdog.NoLimit,
				CreatedAt: s.CreatedAt, StartedAt: noon.Add(time.Hour), Host: "host-2", Attempt: 2,
			}
			again := func() {
				from := clockOf(e)
				s := attach(e, row{
					RunID: homeRun, Parent: want.Parent, Threshold: want.Threshold, StartedAt: want.StartedAt, Host: want.Host,
				})
				within("LastEventAt", s.LastEventAt, from, clockOf(e))
				want.LastEventAt = s.LastEventAt
				equal(s, want)
				looksLike(e, want)
			}
			again()
			claims(e, want, "pass-2", session.Done)
			c := cancelOf(homeRun)
			c.By, c.Resumes, c.StopFailed = "pass-2", 2, true
			cancelsAs(e, want, c, session.Done)
			want.Resumes, want.Attempt = c.Resumes, 3
			again()
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
