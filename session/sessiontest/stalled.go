package sessiontest

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

var stalledRules = []rule{
	{"a session is stalled after more than the threshold, to the microsecond",
		"exceeded means more than: at exactly ten minutes a session is not stalled", func(e *env) {
			rows := putAround(e, func(runID string, now time.Time, beyond time.Duration) row {
				return silentSession(runID, now, threshold+beyond)
			})
			stalledIf(e, rows, func(s row, now time.Time) bool { return now.Sub(s.LastEventAt) > threshold })
		}},
	{"a session is old enough at its minimum age",
		"the minimum age is included", func(e *env) { stalledIf(e, putAround(e, aged), oldEnough) }},
	{"an active session is stalled by a threshold of its own, never by NoLimit, and without events since its creation",
		"a run that may be silent for an hour would be cancelled before, and nobody else finds one that never had an event",
		given(clockOf, func(e *env, now time.Time) {
			never := withThreshold(silentSession("off", now, 1000*day), watchdog.NoLimit)
			never.CreatedAt = now.Add(-2000 * day)
			old, fresh := silentSession("old", now, 0), silentSession("new", now, 0)
			old.LastEventAt, fresh.LastEventAt = time.Time{}, time.Time{}
			old.CreatedAt, fresh.CreatedAt = now.Add(-threshold-time.Minute), now.Add(-threshold+time.Minute)
			put(e, never, old, fresh, silentSession("active", now, time.Hour),
				withThreshold(silentSession("long", now, 50*time.Minute), time.Hour),
				withThreshold(silentSession("long and silent", now, 70*time.Minute), time.Hour),
				withThreshold(silentSession("short", now, 30*time.Second), time.Minute),
				withThreshold(silentSession("short and silent", now, 5*time.Minute), time.Minute))
			for _, status := range []session.Status{session.Cancelled, session.Interrupted, session.Finished} {
				s, own := silentSession(string(status), now, time.Hour), silentSession(string(status)+" of its own", now, time.Hour)
				s.Status, own.Status = status, status
				put(e, s, withThreshold(own, time.Minute))
			}
			findsOnly(e, "active", "long and silent", "short and silent", "old")
		})},
	{"sessions are ordered by when they exceeded their thresholds, with a lease and without one",
		"with ten cancels a pass the last wait, but not always the same ones",
		func(e *env) { findsOnly(e, putMixed(e, 7, 1)...) }},
	{"a stalled session is returned exactly as its row is, and one of a lease with its silence",
		"the cancel compares with the judged row: a row that lost a digit could never be cancelled", func(e *env) {
			s := silentSession(homeRun, clockOf(e), time.Hour+123_457*time.Microsecond)
			s.Parent, s.Attempt, s.Threshold = "parent", 7, time.Minute
			put(e, s)
			equal(findsOne(e), s)
			looksLike(e, s)
			_, s = vouchedFor(e, freshness{Activity: time.Hour + 1, Quiet: true, State: []byte(`{"phase":"tests"}`)})
			equal(findsOne(e), s)
		}},
	{"an unreadable session is reported, is not stalled and hides no other",
		"an error never cancels a session, and one bad row never stops a pass", given(clockOf, func(e *env, now time.Time) {
			beginAt(e, homeLease, vouched)
			spoilt := []row{
				silentSession("spoilt", now, 5*time.Hour), silentSession("spoilt in a lease", now, 4*time.Hour),
				withThreshold(silentSession("spoilt in a lease with a threshold", now, 3*time.Hour), time.Minute),
			}
			put(e, silentSession("before", now, 6*time.Hour), silentSession("after", now, time.Hour))
			put(e, spoilt...)
			findsOnly(e, slices.Concat([]string{"before"}, names(spoilt), []string{"after"})...)
			for _, s := range spoilt[1:] {
				freshens(e, homeLease, quietSince(s, time.Hour))
			}
			for _, s := range spoilt {
				spoil(e, s.RunID)
			}
			page := findUsual(e, 10)
			require(slices.Equal(names(page.Sessions), []string{"before", "after"}) && len(page.Unreadable) == len(spoilt),
				"stalled are %q, and unreadable %q", names(page.Sessions), page.Unreadable)
			for _, err := range page.Unreadable {
				unreadable(err, "spoilt")
			}
		})},
	{"a quiet session is silent as far as its lease vouches for it, more with each renewal, and another is not silent",
		"what is not vouched for may not be written yet, and the row of a silent run is not written", func(e *env) {
			inLease(e, nil, []freshness{
				{Activity: 1, Quiet: true}, {Activity: 1}, {Activity: session.NoActivity, Quiet: true},
				{Activity: vouched, Quiet: true}, {Activity: vouched + day, Quiet: true},
			})
			for i, want := range []time.Duration{vouched - 1, 0, 0, 0, 0} {
				s := look(e, fmt.Sprint("run-", i))
				require(s.Silence == want, "the silence of %+v is %v, want %v", s, s.Silence, want)
			}
			vouch(e, observe(e, homeLease), vouched+time.Hour)
			s := look(e, "run-3")
			require(s.Silence == time.Hour, "after a renewal the silence of %+v is %v", s, s.Silence)
		}},
	{"a session of a lease is stalled if it is quiet after more than its threshold, to the nanosecond",
		"what was new a moment ago may not be written yet, and a run that never signals lives as long as its process",
		func(e *env) {
			const long = 500 * day
			inLease(e, map[string]time.Duration{
				"run-2": time.Minute, "run-3": time.Minute, "run-4": long, "run-5": long, "run-6": watchdog.NoLimit,
				"run-7": long, "run-10": time.Microsecond,
			}, []freshness{
				{Activity: vouched - threshold - 1, Quiet: true}, {Activity: vouched - threshold, Quiet: true},
				{Activity: vouched - time.Minute - 1, Quiet: true}, {Activity: vouched - time.Minute, Quiet: true},
				{Activity: vouched - long - 1, Quiet: true}, {Activity: vouched - long, Quiet: true},
				{Activity: 0, Quiet: true}, {Activity: 0, Quiet: true}, {Activity: 0},
				{Activity: session.NoActivity}, {Activity: session.NoActivity, Quiet: true},
			})
			findsYoung(e, "run-0", "run-2", "run-4", "run-7")
		}},
	{"a session becomes quiet with the activity that it has, and awake with the next",
		"a keeper writes the last activity at once, and that nothing came after it a minute later",
		given2(vouching(freshness{Activity: time.Hour}), func(e *env, l lease, s row) {
			freshens(e, l.ID, quietSince(s, time.Hour))
			s.Silence = l.Vouched - time.Hour
			looksLike(e, s)
			findsOnly(e, s.RunID)
			s.Activity, s.Silence = time.Hour+time.Minute, 0
			freshens(e, l.ID, activity(s, s.Activity))
			looksLike(e, s)
			findsOnly(e)
		})},
	{"the database's clock says nothing about the silence of a session of a lease",
		"a clock that is set forward would cancel every live run", given(clockOf, func(e *env, now time.Time) {
			s := silentSession(homeRun, now, 400*day)
			s.CreatedAt = now.Add(-500 * day)
			put(e, s)
			beginAt(e, homeLease, time.Hour)
			freshens(e, homeLease, quietSince(s, time.Hour-time.Minute))
			findsOnly(e)
		})},
	{"a session of a lease is old enough at its minimum age, by the database's clock",
		"the age is that of the row, and not that of the lease", func(e *env) {
			beginAt(e, homeLease, vouched)
			rows := putAround(e, aged)
			for part := range slices.Chunk(rows, 1000) {
				var fresh []freshness
				for _, s := range part {
					fresh = append(fresh, quietSince(s, 0))
				}
				freshens(e, homeLease, fresh...)
			}
			stalledIf(e, rows, oldEnough)
		}},
	{"pages follow each other without a gap and without a repeat, with a lease and without one",
		"a session between two pages would never be found, and one on both would be cancelled twice",
		func(e *env) { pagesThrough(e, putMixed(e, 24, 4), 1, 4, 5) }},
	{"pages of sessions of one lease follow each other, whenever they exceeded their thresholds",
		"sessions that fell silent in one microsecond must not hide each other", func(e *env) {
			beginAt(e, homeLease, vouched)
			var fresh []freshness
			var rows []row
			for _, own := range []time.Duration{0, time.Hour} {
				for i, at := range []time.Duration{0, 1999, 1000, 1000, 1000, 2000, 2999, 5000} {
					s := withThreshold(silentSession(fmt.Sprintf("run-%v-%d", own, i), noon, 0), own)
					rows, fresh = append(rows, s), append(fresh, quietSince(s, at))
				}
			}
			put(e, rows...)
			freshens(e, homeLease, fresh...)
			pagesThrough(e, names(rows), 1, 2, 3, 4)
		}},
	{"a page is as long as its limit if there are more sessions, and only the last has no next one",
		"a pass that does not know which page is the last stops too early, or never", func(e *env) {
			putFive(e)
			for limit := 3; limit <= 6; limit++ {
				page := findUsual(e, limit)
				require(len(page.Sessions) == min(limit, 5), "a page of %d has %q", limit, names(page.Sessions))
				require((page.Next != "") == (limit < 5), "after %q of five the next page is %q", names(page.Sessions), page.Next)
			}
		}},
	{"the next page follows the last session even if that was cancelled meanwhile",
		"a pass cancels the sessions of a page and asks for the next: with an offset it would skip as many", func(e *env) {
			putFive(e)
			first := findUsual(e, 2)
			cancelsEach(e, first.Sessions)
			second := find(e, session.Query{Threshold: threshold, MinAge: minAge, Limit: 2, After: first.Next})
			got := names(second.Sessions)
			require(slices.Equal(got, []string{"run-2", "run-3"}), "the second page has %q", got)
		}},
	{"a page without a session still has the time",
		"a host's clock can be checked only against the database's", func(e *env) {
			s := attach(e, newSession(homeRun))
			within("Now", findUsual(e, 1).Now, s.CreatedAt, s.CreatedAt.Add(time.Hour))
		}},
}

// aged returns a session around its minimum age.
func aged(runID string, now time.Time, beyond time.Duration) row {
	s := silentSession(runID, now, time.Hour)
	s.CreatedAt = now.Add(-minAge - beyond)
	return s
}

func oldEnough(s row, now time.Time) bool { return now.Sub(s.CreatedAt) >= minAge }

// slowest is how many milliseconds putAround gives a store between the write of its rows and its page.
var slowest = 2000

// putAround writes rows close to a limit, on both sides of it, some with the query's threshold and some with their own.
func putAround(e *env, around func(runID string, now time.Time, beyond time.Duration) row) (rows []row) {
	now := clockOf(e)
	for n := -slowest; n <= 50; n++ {
		s := around(fmt.Sprintf("%+d ms", n), now, time.Duration(n)*time.Millisecond)
		rows = append(rows, s)
		s.RunID += " of its own"
		rows = append(rows, withThreshold(s, threshold))
	}
	rows = append(rows, around("+1 µs", now, time.Microsecond), around("-1 µs", now, -time.Microsecond))
	put(e, rows...)
	return rows
}

// stalledIf checks which rows are stalled by the time of the page: so also with a clock that has only milliseconds.
func stalledIf(e *env, rows []row, stalled func(s row, now time.Time) bool) {
	page := findUsual(e, len(rows))
	found := map[string]bool{}
	for _, s := range page.Sessions {
		found[s.RunID] = true
	}
	for _, s := range rows {
		want := stalled(s, page.Now)
		require(found[s.RunID] == want, "%s: created at %v, last active at %v: at %v stalled is %v, want %v",
			s.RunID, s.CreatedAt, s.LastEventAt, page.Now, !want, want)
	}
}

// vouched is the instant through which leases vouch in these rules, far from any clock of a host or the database.
const vouched = 1000 * day

// inLease attaches to a run for each freshness, run-0 the first, under a lease. Some have a threshold of their own.
func inLease(e *env, own map[string]time.Duration, fresh []freshness) {
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

// putMixed writes stalled sessions in their order: one in two has a lease, and one in three a threshold of its own. As
// many as are tied exceeded it at the same moment.
func putMixed(e *env, count, tied int) []string {
	l, now := beginAt(e, homeLease, vouched), clockOf(e)
	var rows []row
	var fresh []freshness
	for i := range count {
		s, limit := silentSession(fmt.Sprintf("run %02d", i), now, 0), threshold
		if i%3 == 0 {
			limit = 3 * time.Hour
			s = withThreshold(s, limit)
		}
		silence := limit + time.Duration((count-1-i)/tied+1)*10*time.Minute
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

// putFive writes run-0 to run-4, which are stalled in this order.
func putFive(e *env) {
	now := clockOf(e)
	for i := range 5 {
		put(e, silentSession(fmt.Sprint("run-", i), now, time.Hour-time.Duration(i)*time.Minute))
	}
}

// pagesThrough reads all pages of each length and checks that they have each of the sessions once.
func pagesThrough(e *env, want []string, limits ...int) {
	for _, limit := range limits {
		q := session.Query{Threshold: threshold, MinAge: minAge, Limit: limit}
		var found []string
		for more := true; more && len(found) <= len(want); {
			page := find(e, q)
			found = append(found, names(page.Sessions)...)
			q.After, more = page.Next, page.Next != ""
		}
		slices.Sort(found)
		require(slices.Equal(found, want), "pages of %d have %q, want each of %q once", limit, found, want)
	}
}
