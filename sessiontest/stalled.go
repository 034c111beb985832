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
		"exceeded means more than: at exactly ten minutes a session is not stalled",
		func(e *env) {
			rows := putAround(e, func(runID string, now time.Time, beyond time.Duration) session.Session {
				return silentSession(runID, now, threshold+beyond)
			})
			stalledIf(e, rows, func(s session.Session, now time.Time) bool { return now.Sub(s.LastEventAt) > threshold })
		}},
	{"a session is old enough at its minimum age",
		"the minimum age is included",
		func(e *env) { stalledIf(e, putAround(e, aged), oldEnough) }},
	{"a session without events is silent since its creation",
		"nobody else finds a run that never had an event",
		func(e *env) {
			now := clockOf(e)
			old, fresh := silentSession("old", now, 0), silentSession("new", now, 0)
			old.LastEventAt, fresh.LastEventAt = time.Time{}, time.Time{}
			old.CreatedAt, fresh.CreatedAt = now.Add(-threshold-time.Minute), now.Add(-threshold+time.Minute)
			put(e, old, fresh)
			findsOnly(e, "old")
		}},
	{"a session with a threshold of its own is judged by that",
		"a run that is expected to be silent for an hour would be cancelled after ten minutes",
		func(e *env) {
			now := clockOf(e)
			put(e, withThreshold(silentSession("long", now, 50*time.Minute), time.Hour),
				withThreshold(silentSession("long and silent", now, 70*time.Minute), time.Hour),
				withThreshold(silentSession("short", now, 30*time.Second), time.Minute),
				withThreshold(silentSession("short and silent", now, 5*time.Minute), time.Minute))
			findsOnly(e, "long and silent", "short and silent")
		}},
	{"a session with the threshold NoLimit is never stalled",
		"a host can switch the sweeper off for a session",
		func(e *env) {
			now := clockOf(e)
			never := withThreshold(silentSession("off", now, 1000*day), watchdog.NoLimit)
			never.CreatedAt = now.Add(-2000 * day)
			put(e, never)
			findsOnly(e)
		}},
	{"only active sessions are stalled",
		"an ended session has no more events, and every pass would cancel it again",
		func(e *env) {
			now := clockOf(e)
			put(e, silentSession("active", now, time.Hour))
			for _, status := range []session.Status{session.Cancelled, session.Interrupted, session.Finished} {
				s, own := silentSession(string(status), now, time.Hour), silentSession(string(status)+" of its own", now, time.Hour)
				s.Status, own.Status = status, status
				put(e, s, withThreshold(own, time.Minute))
			}
			findsOnly(e, "active")
		}},
	{"sessions are ordered by when they exceeded their thresholds",
		"with ten cancels a pass, the last sessions wait: it must not always be the same ones",
		func(e *env) {
			now := clockOf(e)
			beyond := func(runID string, minutes, own time.Duration) session.Session {
				if own == 0 {
					return silentSession(runID, now, threshold+minutes*time.Minute)
				}
				return withThreshold(silentSession(runID, now, own+minutes*time.Minute), own)
			}
			put(e, beyond("1", 1, 0), beyond("40", 40, 0), beyond("20", 20, 0), beyond("60", 60, 0),
				beyond("10 own", 10, 3*time.Hour), beyond("50 own", 50, time.Minute), beyond("30 own", 30, time.Hour))
			findsOnly(e, "60", "50 own", "40", "30 own", "20", "10 own", "1")
		}},
	{"a stalled session is returned exactly as its row is",
		"the cancel compares with the judged row: a row that lost a digit could never be cancelled",
		func(e *env) {
			s := silentSession(homeRun, clockOf(e), time.Hour+123_457*time.Microsecond)
			s.Parent, s.Attempt, s.Threshold = "parent", 7, time.Minute
			put(e, s)
			equal(findsOne(e), s)
			looksLike(e, s)
		}},
	{"an unreadable session is reported, is not stalled and hides no other",
		"an error must never cancel a session, and one bad row must never stop a pass",
		func(e *env) {
			now := clockOf(e)
			beginAt(e, homeLease, vouched)
			spoilt := []session.Session{
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
		}},
}

// aged returns a session around its minimum age.
func aged(runID string, now time.Time, beyond time.Duration) session.Session {
	s := silentSession(runID, now, time.Hour)
	s.CreatedAt = now.Add(-minAge - beyond)
	return s
}

func oldEnough(s session.Session, now time.Time) bool { return now.Sub(s.CreatedAt) >= minAge }

// slowest is how many milliseconds putAround gives a store between the write of its rows and its page.
var slowest = 2000

// putAround writes rows close to a limit, on both sides of it, some with the query's threshold and some with their own.
func putAround(
	e *env, row func(runID string, now time.Time, beyond time.Duration) session.Session,
) (rows []session.Session) {
	now := clockOf(e)
	for n := -slowest; n <= 50; n++ {
		s := row(fmt.Sprintf("%+d ms", n), now, time.Duration(n)*time.Millisecond)
		rows = append(rows, s)
		s.RunID += " of its own"
		rows = append(rows, withThreshold(s, threshold))
	}
	rows = append(rows, row("+1 µs", now, time.Microsecond), row("-1 µs", now, -time.Microsecond))
	put(e, rows...)
	return rows
}

// stalledIf checks which rows are stalled. It judges each by the time of the page. So it tests the limit itself also
// with a clock that has only milliseconds, or that stands still.
func stalledIf(e *env, rows []session.Session, stalled func(s session.Session, now time.Time) bool) {
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
