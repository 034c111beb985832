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
	{"an activity is read as it was written, to the nanosecond",
		"a cancel compares the activity with the judged one: a row that lost a digit could never be cancelled", func(e *env) {
			want := attachLeased(e, homeLease, homeRun)
			for _, want.Activity = range []time.Duration{0, 123_456_789, 1000*day + 1} {
				freshens(e, homeLease, activity(want, want.Activity))
				looksLike(e, want)
			}
		}},
	{"freshening never takes an activity back, by the clock of its lease",
		"two writes in the wrong order would make a live session look silent", func(e *env) {
			f := activity(attachLeased(e, homeLease, homeRun), 2*time.Hour)
			freshens(e, homeLease, f)
			s := look(e, homeRun)
			f.Quiet, f.State = true, json.RawMessage(`{"phase":"earlier"}`)
			for _, f.Activity = range []time.Duration{f.Activity - 1, 0, session.NoActivity} {
				freshens(e, homeLease, f)
				looksLike(e, s)
			}
		}},
	{"freshening puts a session without a lease into the lease, with its first activity",
		"after its process was taken for dead, a keeper claims its rows back like this", given(silent, func(e *env, s row) {
			s.Lease = begin(e, homeLease).ID
			for _, s.Activity = range []time.Duration{session.NoActivity, time.Second} {
				freshens(e, homeLease, activity(s, s.Activity))
				looksLike(e, s)
			}
		})},
	{"freshening takes a session over from another lease, whatever its activity was by that lease's clock",
		"the clock of each lease begins at zero: an activity by one says nothing about an activity by another", func(e *env) {
			s := attachLeased(e, homeLease, homeRun)
			freshens(e, homeLease, activity(s, 3*time.Hour))
			s.Lease, s.Activity = begin(e, awayLease).ID, time.Second
			freshens(e, awayLease, activity(s, s.Activity))
			looksLike(e, s)
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
	{"a session in another attempt is left alone and returned as gone",
		"a host that was taken for dead would keep the row of its successor fresh for ever",
		func(e *env) { freshensNothing(e, session.Active, 2) }},
	{"a session that has ended is left alone and returned as gone",
		"this is how a keeper learns that its run was cancelled", func(e *env) {
			for _, status := range []session.Status{session.Cancelled, session.Interrupted, session.Finished} {
				freshensNothing(e, status, 1)
			}
		}},
	{"a run that has no row is returned as gone",
		"a deleted row guards nothing, and its keeper must know", func(e *env) {
			begin(e, homeLease)
			gone := freshen(e, homeLease, freshness{RunID: "unknown", Attempt: 1})
			require(slices.Equal(gone, []string{"unknown"}), "gone are %q", gone)
		}},
	{"ten thousand sessions are freshened in one call, and no others",
		"a process writes the rows of all its runs at once; the store must get around a limit on parameters", freshensMany},
	{"unusual run IDs are freshened like others",
		"a store that sends a list of IDs as one text may lose quotes and brackets", func(e *env) {
			begin(e, homeLease)
			var fresh []freshness
			for _, runID := range oddIDs {
				fresh = append(fresh, activity(attach(e, newSession(runID)), 0))
			}
			freshens(e, homeLease, fresh...)
		}},
	{"freshening nothing does nothing",
		"a caller that collected nothing does not have to check that before it writes", func(e *env) {
			begin(e, homeLease)
			freshens(e, homeLease)
		}},
}

// freshensNothing checks that freshening attempt 1 does not change a session with this status and attempt.
func freshensNothing(e *env, status session.Status, attempt int) {
	s := silentSession(homeRun, clockOf(e), time.Hour)
	s.Status, s.Attempt = status, attempt
	put(e, s)
	begin(e, homeLease)
	gone := freshen(e, homeLease, freshness{RunID: homeRun, Attempt: 1})
	require(slices.Equal(gone, []string{homeRun}), "gone are %q, want %q, which is %s", gone, homeRun, status)
	looksLike(e, s)
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
	gone := freshen(e, homeLease, fresh...)
	require(slices.Equal(gone, want), "gone are %s, want %s", contract.Shorten(gone), contract.Shorten(want))
	findsOnly(e, untouched...)
}
