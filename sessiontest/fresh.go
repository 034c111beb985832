package sessiontest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
)

var freshRules = []rule{
	{"an activity is read as it was written, to the nanosecond, and is never taken back",
		"a cancel compares it with the judged one; and two writes in the wrong order would make a live session look silent",
		func(e *env) {
			s := attachLeased(e, homeLease, homeRun)
			for _, s.Activity = range []time.Duration{0, 123_456_789, 1000*day + 1} {
				freshens(e, homeLease, activity(s, s.Activity))
				looksLike(e, s)
			}
			f := quietSince(s, 0)
			f.State = json.RawMessage(`{"phase":"earlier"}`)
			for _, f.Activity = range []time.Duration{s.Activity - 1, 0, session.NoActivity} {
				freshens(e, homeLease, f)
				looksLike(e, s)
			}
		}},
	{"freshening puts a session into a lease with its first activity, from none and from another",
		"a keeper claims rows back like this, and each lease has a clock of its own, which begins at zero", func(e *env) {
			s := attach(e, newSession(homeRun))
			puts := func(lease string, activities ...time.Duration) {
				s.Lease = begin(e, lease).ID
				for _, s.Activity = range activities {
					freshens(e, lease, activity(s, s.Activity))
					looksLike(e, s)
				}
			}
			puts(homeLease, session.NoActivity, 3*time.Hour)
			puts(awayLease, time.Second)
		}},
	{"freshening writes the state that it has, and without one leaves the state as it is",
		"a state is written when it has changed, and a page shows it until then", func(e *env) {
			begin(e, homeLease)
			s := underLease(newSession(homeRun), homeLease)
			s.State = json.RawMessage(`{"phase":"first"}`)
			s = attach(e, s)
			s.Activity = 0
			for _, state := range []json.RawMessage{nil, json.RawMessage(`{"phase":"second"}`), nil} {
				s.Activity += time.Minute
				f := activity(s, s.Activity)
				if f.State = state; state != nil {
					s.State = state
				}
				freshens(e, homeLease, f)
				looksLike(e, s)
			}
		}},
	{"a session in another attempt, one that has ended and a run without a row are left alone and returned as gone",
		"this is how a keeper learns that its run was cancelled, or goes on elsewhere", func(e *env) {
			now, rows := clockOf(e), []row{}
			for status, attempt := range map[session.Status]int{
				session.Active: 2, session.Cancelled: 1, session.Interrupted: 1, session.Finished: 1,
			} {
				s := silentSession(string(status), now, time.Hour)
				s.Status, s.Attempt = status, attempt
				rows = append(rows, s)
			}
			put(e, rows...)
			begin(e, homeLease)
			for _, runID := range append(names(rows), "unknown") {
				gone := freshen(e, homeLease, freshness{RunID: runID, Attempt: 1})
				require(slices.Equal(gone, []string{runID}), "gone are %q, want %q", gone, runID)
			}
			for _, s := range rows {
				looksLike(e, s)
			}
		}},
	{"ten thousand sessions are freshened in one call, and no others; none are if nothing is fresh",
		"a process writes the rows of all its runs at once; the store must get around a limit on parameters", freshensMany},
}

// crowd is how many rows freshensMany has.
var crowd = racing.Rounds(10_000, 10_000)

// freshensMany freshens all rows but every hundredth, and some runs that have no row.
func freshensMany(e *env) {
	now := clockOf(e)
	var rows []row
	var fresh []freshness
	var want, untouched []string
	for i := range crowd {
		s := silentSession(fmt.Sprintf("run-%05d", i), now, day)
		rows = append(rows, s)
		if i%100 == 0 {
			untouched = append(untouched, s.RunID)
			continue
		}
		fresh = append(fresh, activity(s, 0))
	}
	for i := range 50 {
		want = append(want, fmt.Sprintf("unknown-%02d", i))
		fresh = append(fresh, freshness{RunID: want[i], Attempt: 1})
	}
	put(e, rows...)
	begin(e, homeLease)
	freshens(e, homeLease)
	gone := freshen(e, homeLease, fresh...)
	require(slices.Equal(gone, want), "gone are %s, want %s", contract.Shorten(gone), contract.Shorten(want))
	findsOnly(e, untouched...)
}
