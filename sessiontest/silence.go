package sessiontest

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// vouched is the instant through which leases vouch in these rules. Without a clock of the host's or the database's
// anywhere near it, only the lease can tell how long a run was silent.
const vouched = 1000 * day

var silenceRules = []rule{
	{"a quiet session is silent as far as its lease vouches for it, and another is not silent",
		"what is not vouched for may not be written yet",
		func(e *env) {
			inLease(e, nil, []session.Freshness{
				{Activity: 1, Quiet: true}, {Activity: 1}, {Activity: session.NoActivity, Quiet: true},
				{Activity: vouched, Quiet: true}, {Activity: vouched + day, Quiet: true},
			})
			for i, want := range []time.Duration{vouched - 1, 0, 0, 0, 0} {
				s := look(e, fmt.Sprint("run-", i))
				require(s.Silence == want, "the silence of %+v is %v, want %v", s, s.Silence, want)
			}
		}},
	{"each renewal vouches for more silence",
		"the row of a silent run is not written, only the lease of its process",
		func(e *env) {
			l, s := vouchedFor(e, session.Freshness{Activity: time.Hour, Quiet: true})
			vouch(e, l, vouched)
			s.Silence = vouched - time.Hour
			looksLike(e, s)
		}},
	{"a session of a lease is stalled after more than its threshold, to the nanosecond",
		"exceeded means more than, by the clock of the lease as well",
		func(e *env) {
			const long = 500 * day
			inLease(e, map[string]time.Duration{
				"run-2": time.Minute, "run-3": time.Minute, "run-4": long, "run-5": long, "run-6": watchdog.NoLimit,
				"run-7": long,
			}, []session.Freshness{
				{Activity: vouched - threshold - 1, Quiet: true}, {Activity: vouched - threshold, Quiet: true},
				{Activity: vouched - time.Minute - 1, Quiet: true}, {Activity: vouched - time.Minute, Quiet: true},
				{Activity: vouched - long - 1, Quiet: true}, {Activity: vouched - long, Quiet: true},
				{Activity: 0, Quiet: true}, {Activity: 0, Quiet: true},
			})
			findsYoung(e, "run-0", "run-2", "run-4", "run-7")
		}},
	{"a session of a lease that is not quiet is not stalled",
		"its run had something new a moment ago, which may not be written yet",
		func(e *env) {
			inLease(e, nil, []session.Freshness{{Activity: 0}, {Activity: time.Hour, Quiet: true}})
			findsYoung(e, "run-1")
		}},
	{"a session becomes quiet with the activity that it has, and awake with the next",
		"a keeper writes the last activity at once, and that nothing came after it a minute later",
		func(e *env) {
			l, s := vouchedFor(e, session.Freshness{Activity: time.Hour})
			freshens(e, l.ID, quietSince(s, time.Hour))
			s.Silence = l.Vouched - time.Hour
			looksLike(e, s)
			findsOnly(e, s.RunID)
			s.Activity, s.Silence = time.Hour+time.Minute, 0
			freshens(e, l.ID, activity(s, s.Activity))
			looksLike(e, s)
			findsOnly(e)
		}},
	{"a session of a lease that has not signalled is never stalled",
		"a run that never signals is alive as long as its process is",
		func(e *env) {
			inLease(e, map[string]time.Duration{"run-1": time.Microsecond}, []session.Freshness{
				{Activity: session.NoActivity}, {Activity: session.NoActivity, Quiet: true},
			})
			findsYoung(e)
		}},
	{"the database's clock says nothing about the silence of a session of a lease",
		"a clock that is set forward by more than the threshold would cancel every live run",
		func(e *env) {
			now := clockOf(e)
			s := silentSession(homeRun, now, 400*day)
			s.CreatedAt = now.Add(-500 * day)
			put(e, s)
			beginAt(e, homeLease, time.Hour)
			freshens(e, homeLease, quietSince(s, time.Hour-time.Minute))
			findsOnly(e)
		}},
	{"a session of a lease is old enough at its minimum age, by the database's clock",
		"the age is that of the row, and not that of the lease",
		func(e *env) {
			beginAt(e, homeLease, vouched)
			rows := putAround(e, aged)
			for part := range slices.Chunk(rows, 1000) {
				var fresh []session.Freshness
				for _, s := range part {
					fresh = append(fresh, quietSince(s, 0))
				}
				freshens(e, homeLease, fresh...)
			}
			stalledIf(e, rows, oldEnough)
		}},
	{"a stalled session of a lease is returned exactly as its row is, with its silence",
		"a cancel compares with the judged row, and its event says how long the run was silent",
		func(e *env) {
			_, s := vouchedFor(e,
				session.Freshness{Activity: time.Hour + 1, Quiet: true, State: []byte(`{"phase":"tests"}`)})
			equal(findsOne(e), s)
		}},
	{"sessions with a lease and without one are ordered by when they exceeded their thresholds",
		"sessions of one kind would wait for ever behind those of the other",
		func(e *env) { findsOnly(e, putMixed(e, 7)...) }},
	{"pages of sessions with a lease and without one follow each other without a gap and without a repeat",
		"a session between two pages would never be found, and one on both would be judged twice",
		func(e *env) { pagesThrough(e, putMixed(e, 24), 1, 4, 5) }},
	oneTime("with the query's threshold", 0),
	oneTime("with a threshold of their own", time.Hour),
}

// oneTime is the rule of the pages of sessions of one lease, with such a threshold of their own, of which several
// exceeded their thresholds in one microsecond.
func oneTime(name string, own time.Duration) rule {
	return rule{
		"pages of sessions of one lease " + name + " follow each other, whenever they exceeded it",
		"sessions that fell silent in one microsecond must not hide each other",
		func(e *env) {
			beginAt(e, homeLease, vouched)
			var fresh []session.Freshness
			var rows []session.Session
			for i, at := range []time.Duration{0, 1999, 1000, 1000, 1000, 2000, 2999, 5000} {
				s := withThreshold(silentSession(fmt.Sprint("run-", i), noon, 0), own)
				rows, fresh = append(rows, s), append(fresh, quietSince(s, at))
			}
			put(e, rows...)
			freshens(e, homeLease, fresh...)
			pagesThrough(e, names(rows), 1, 2, 3, 4)
		},
	}
}

// inLease attaches to a run for each freshness, run-0 the first, under a lease that vouches for a long time. Some have
// a threshold of their own.
func inLease(e *env, own map[string]time.Duration, fresh []session.Freshness) {
	beginAt(e, homeLease, vouched)
	for i, f := range fresh {
		f.RunID, f.Attempt = fmt.Sprint("run-", i), 1
		attach(e, underLease(withThreshold(newSession(f.RunID), own[f.RunID]), homeLease))
		freshens(e, homeLease, f)
	}
}

// findsYoung checks which sessions of any age are stalled.
func findsYoung(e *env, want ...string) {
	got := names(find(e, session.Query{Threshold: threshold, Limit: 100}).Sessions)
	slices.Sort(got)
	require(slices.Equal(got, want), "stalled are %q, want %q", got, want)
}

// putMixed writes stalled sessions, and returns their names in the order in which they exceeded their thresholds. One
// in two has a lease, and one in three a threshold of its own.
func putMixed(e *env, count int) []string {
	l, now := beginAt(e, homeLease, vouched), clockOf(e)
	var rows []session.Session
	var fresh []session.Freshness
	for i := range count {
		s, limit := silentSession(fmt.Sprintf("run %02d", i), now, 0), threshold
		if i%3 == 0 {
			limit = 3 * time.Hour
			s = withThreshold(s, limit)
		}
		silence := limit + time.Duration(count-i)*10*time.Minute
		if i%2 == 0 {
			fresh = append(fresh, quietSince(s, l.Vouched-silence))
		} else {
			s.LastEventAt = now.Add(-silence)
		}
		rows = append(rows, s)
	}
	put(e, rows...)
	freshens(e, homeLease, fresh...)
	return names(rows)
}
