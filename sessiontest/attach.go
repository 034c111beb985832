package sessiontest

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var attachRules = []rule{
	{"a new run gets an active row, created now and last active now, with attempt 1",
		"a row without a start time cannot be judged, and one that starts in the past is cancelled at once",
		func(e *env) {
			from := clockOf(e)
			s := attach(e, newSession(homeRun))
			to := clockOf(e)
			require(s.Status == session.Active && s.Attempt == 1 && s.Reason == "" && s.Resumes == 0, "the row is %+v", s)
			within("CreatedAt", s.CreatedAt, from, to)
			within("LastEventAt", s.LastEventAt, from, to)
		}},
	{"before the first attach the attempt is 0",
		"a watchdog records a lost attempt if there was an attempt before and it did not end",
		func(e *env) {
			before, _, err := e.Store.Attach(e.Ctx, newSession(homeRun))
			must(err, "attach")
			require(before.Attempt == 0, "before the first attempt the row was %+v", before)
		}},
	{"attaching again counts the attempt",
		"writes of a lost attempt must not count as writes of the new one",
		func(e *env) {
			for n := range 3 {
				s := attach(e, newSession(homeRun))
				require(s.Attempt == n+1, "attempt %d has the number %d", n+1, s.Attempt)
			}
		}},
	{"attaching again returns the row as it was",
		"if the row was still active, the attempt before was lost: nothing else shows that",
		func(e *env) {
			first := attach(e, session.Session{
				RunID: homeRun, Parent: "p", Threshold: time.Hour, StartedAt: noon, Host: "first",
			})
			before, _, err := e.Store.Attach(e.Ctx, newSession(homeRun))
			must(err, "attach again")
			equal(before, first)
		}},
	{"attaching again makes an ended session active and clears its reason",
		"if the row of a resumed run stays cancelled, its own watchdog ends the run again",
		func(e *env) {
			s := attach(e, newSession(homeRun))
			end(e, session.Ending{RunID: homeRun, Attempt: s.Attempt, Status: session.Cancelled, Reason: why})
			s = attach(e, newSession(homeRun))
			require(s.Status == session.Active && s.Reason == "", "it is %s with the reason %q", s.Status, string(s.Reason))
		}},
	{"attaching again keeps the creation time and the number of resumes",
		"a policy that resumes a run at most three times counts in its row",
		func(e *env) {
			s := putSilent(e, homeRun, time.Hour)
			c := cancelOf(homeRun)
			c.Resumes = 2
			cancelsAs(e, s, c, session.Done)
			after := attach(e, newSession(homeRun))
			require(after.CreatedAt.Equal(s.CreatedAt) && after.Resumes == 2,
				"it was created at %v and resumed %d times, want %v and 2", after.CreatedAt, after.Resumes, s.CreatedAt)
		}},
	{"attaching again sets parent, threshold, window and host, and the last event to now",
		"a run that moved to another host must be found there, and the silence of its old host must not make it stalled",
		func(e *env) {
			old := putSilent(e, homeRun, time.Hour)
			want := session.Session{
				RunID: homeRun, Parent: "other", Threshold: watchdog.NoLimit, StartedAt: noon.Add(time.Hour), Host: "host-2",
			}
			got := attach(e, want)
			require(got.Parent == want.Parent && got.Threshold == want.Threshold &&
				got.StartedAt.Equal(want.StartedAt) && got.Host == want.Host, "the row is %+v", got)
			from := old.LastEventAt.Add(time.Hour)
			within("LastEventAt", got.LastEventAt, from, from.Add(time.Hour))
		}},
	{"callers that attach to one run at once get different attempts",
		"two attempts with one number would keep each other's row fresh",
		func(e *env) {
			attempts := make([]int, 8)
			contract.StepsAtOnce(len(attempts), func(caller int) { attempts[caller] = attach(e, newSession(homeRun)).Attempt })
			slices.Sort(attempts)
			require(slices.Equal(attempts, []int{1, 2, 3, 4, 5, 6, 7, 8}), "the attempts are %v, want 1 to 8", attempts)
		}},
}
