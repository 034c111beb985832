package sessiontest

import (
	"fmt"
	"slices"

	"github.com/seed62658d38/watchdog/session"
)

var endedRules = []rule{
	{"a lease is told of each session that is cancelled, until it says that it was told",
		"this is how a cancel reaches a live run on another host, which may lose an answer", func(e *env) {
			begin(e, homeLease)
			var told []session.AttemptID
			for attempt := 1; attempt <= 3; attempt++ {
				s, c := attachUnder(e, homeLease, homeRun), cancelOf(homeRun)
				c.Events[0].ID = fmt.Sprint("cancel ", attempt)
				cancelsAs(e, s, c, session.Done)
				next := session.AttemptID{RunID: homeRun, Attempt: attempt}
				tells(e, homeLease, told, next)
				tells(e, homeLease, nil, next)
				told = []session.AttemptID{next}
			}
			tells(e, homeLease, told)
			tells(e, homeLease, nil)
		}},
	{"each lease is told of its own sessions only, and what it was not told yet is not forgotten with what it was",
		"a session that is cancelled between two polls would run on", func(e *env) {
			all, away := attachEach(e, homeLease, "a", "b", "c"), attachEach(e, awayLease, "d")
			between, told := all[1:2], []row{all[0], all[2]}
			cancelsEach(e, append(told, away...))
			tells(e, homeLease, attemptsOf(away), attemptsOf(told)...)
			cancelsEach(e, between)
			tells(e, homeLease, attemptsOf(told), attemptsOf(between)...)
			tells(e, awayLease, nil, attemptsOf(away)...)
		}},
	{"nobody is told of what its lease ended itself, of what has not ended, and of what had no lease",
		"a keeper would read the events of all its runs again and again", func(e *env) {
			all := attachEach(e, homeLease, "finished", "live")
			finish(e, "finished")
			freshens(e, homeLease, activity(all[1], 0))
			cancels(e, attach(e, newSession(homeRun)), session.Done)
			tells(e, homeLease, nil)
			tells(e, "", nil)
		}},
	{"of sessions that are cancelled together the leases are told",
		"a sweeper cancels the sessions of a page together", func(e *env) {
			all := attachEach(e, homeLease, "a", "b", "c")
			cancelsAll(e, batchOf(all), session.Done, session.Done, session.Done)
			tells(e, homeLease, nil, attemptsOf(all)...)
		}},
	{"what a lease was not told goes with it",
		"the ends of all processes that ever died would be kept for ever, and told to nobody", func(e *env) {
			l := begin(e, homeLease)
			cancels(e, attachUnder(e, homeLease, homeRun), session.Done)
			expires(e, l, true, 0)
			tells(e, homeLease, nil)
			begin(e, homeLease) // as no process does: IDs are random
			tells(e, homeLease, nil)
		}},
}

// tells checks of which attempts a lease is told that was told of others.
func tells(e *env, lease string, told []session.AttemptID, want ...session.AttemptID) {
	got, err := e.Store.Ended(e.Ctx, lease, told)
	must(err, "ask for the ends of lease %q", lease)
	slices.SortFunc(got, compareAttempts)
	slices.SortFunc(want, compareAttempts)
	require(slices.Equal(got, want), "lease %q is told of %v, want %v", lease, got, want)
}
