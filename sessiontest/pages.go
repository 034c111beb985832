package sessiontest

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

var pageRules = []rule{
	{"pages follow each other without a gap and without a repeat",
		"a session between two pages would never be found, and one on both would be cancelled twice",
		given(clockOf, func(e *env, now time.Time) {
			var rows []session.Session
			for i := range 24 { // some exceeded their thresholds at the same moment
				beyond := time.Hour + time.Duration(i/4)*time.Minute
				s := silentSession(fmt.Sprintf("run %02d", i), now, threshold+beyond)
				if i%2 == 1 {
					s = withThreshold(silentSession(s.RunID, now, 5*time.Minute+beyond), 5*time.Minute)
				}
				rows = append(rows, s)
			}
			put(e, rows...)
			pagesThrough(e, names(rows), 1, 4, 5)
		})},
	{"a page is as long as its limit if there are more sessions",
		"a pass that cancels ten sessions asks for ten, and not for a million", func(e *env) {
			putFive(e)
			page := findUsual(e, 3)
			require(len(page.Sessions) == 3, "a page of 3 has %q", names(page.Sessions))
		}},
	{"only the last page has no next one",
		"a pass that does not know which page is the last stops too early, or never", func(e *env) {
			putFive(e)
			for limit, want := range map[int]bool{4: true, 5: false, 6: false} {
				page := findUsual(e, limit)
				require((page.Next != "") == want, "after %q of five the next page is %q", names(page.Sessions), page.Next)
			}
		}},
	{"the next page follows the last session even if that was cancelled meanwhile",
		"a pass cancels the sessions of a page and then asks for the next: with an offset it would skip as many",
		func(e *env) {
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
