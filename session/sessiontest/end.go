package sessiontest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var endRules = []rule{
	{"an attempt ends with the given status and reason, and an end of another attempt changes nothing",
		"a sweeper cancels what stays active; and a host may report its lost attempt when another has taken over", endsEach},
	{"an end writes the state that it brings, and without one leaves the row's",
		"how a command ended, and how far its limits were used, is all that a page has of a run that is over", func(e *env) {
			for _, state := range []string{"", `{"outcome":"failed","exit_status":7,"phase":"<tests>"}`} {
				s := newSession("with " + state)
				s.State = []byte(`{"phase":"build"}`)
				s = attach(e, s)
				ending := session.Ending{RunID: s.RunID, Attempt: 1, Status: session.Finished, Reason: "complete", Age: day}
				if s.Status, s.Reason = ending.Status, ending.Reason; state != "" {
					ending.State, s.State = []byte(state), []byte(state)
				}
				end(e, ending)
				looksLike(e, s)
			}
		}},
	{"a session that has ended keeps its end",
		"if the watchdog overwrote a cancel, its reason would be lost", given(silent, func(e *env, s row) {
			s.Status, s.Reason = session.Cancelled, why
			put(e, s)
			finish(e, homeRun)
			looksLike(e, s)
		})},
	{"the last event of a session that ended is as old as the caller says, and never moves back",
		"if a host's clock is two minutes slow, its sessions would have ended before they began", func(e *env) {
			const said = 90 * time.Minute
			for _, silence := range []time.Duration{day, time.Minute} {
				runID := fmt.Sprint("silent for ", silence)
				before, from := putSilent(e, runID, silence), clockOf(e)
				end(e, session.Ending{RunID: runID, Attempt: 1, Status: session.Finished, Age: said})
				from, to := from.Add(-said), clockOf(e).Add(-said)
				if silence < said {
					from, to = before.LastEventAt, before.LastEventAt
				}
				within("LastEventAt", look(e, runID).LastEventAt, from, to)
			}
		}},
	{"a session that ends leaves its lease, and says when it ended, by the clock of the store",
		"the row must not keep the lease of its process; and a run that was silent would seem to have taken no time",
		func(e *env) {
			for name, ends := range waysToEnd(e) {
				contract.Part("by "+name, func() { endsInLease(e, name, ends) })
			}
		}},
	{"a cancel or a claim of a session whose end is stored already writes down what that says, and nothing else",
		"a run that was ended by its own limit, and whose host died before it wrote the row, was not idle", func(e *env) {
			for _, own := range ownEnds("cancelled-") {
				writesDown(e, own, func(s row) {
					c := cancelOf(s.RunID)
					c.Resumes, c.StopFailed = 3, true
					c.Events = []event.Event{warning(s.RunID), own}
					cancelsAs(e, s, c, session.EndStored)
				})
			}
			for _, own := range ownEnds("claimed-") {
				writesDown(e, own, func(s row) { claims(e, s, by, session.EndStored) })
			}
		}},
	{"a stored end that appears after the claim is written down by the cancel, with the claim",
		"the run may end while its agents are stopped", func(e *env) {
			s, own := claimed(e), ownEnd(homeRun, true)
			appends(e, own)
			cancels(e, s, session.EndStored)
			s.Status, s.Reason = session.StoredEnd(own)
			looksLike(e, s)
		}},
	{"the end of another window is none of this one",
		"a run that was cancelled, resumed and stalled again is cancelled again", given(silent, func(e *env, s row) {
			appends(e, cancelEvent("another", homeRun, noon))
			claims(e, s, by, session.Done)
			cancels(e, s, session.Done)
			recorded(e, homeRun, "another", "cancel of "+homeRun)
		})},
	{"a lease is told of a stored end that is written down",
		"the run may be live on a host that has not looked into its events", func(e *env) {
			all := attachEach(e, homeLease, "claimed", "cancelled")
			appends(e, ownEnd("claimed", true), ownEnd("cancelled", true))
			claims(e, all[0], by, session.EndStored)
			cancels(e, all[1], session.EndStored)
			tells(e, homeLease, nil, attemptsOf(all)...)
		}},
	{"a listener is notified of a stored end that is written down",
		"the run may be live on a host that has not looked into its events", listened(func(e *env, told <-chan string) {
			s := putSilent(e, homeRun, time.Hour)
			appends(e, ownEnd(homeRun, false))
			claims(e, s, by, session.EndStored)
			receives(e, told, homeRun)
		})},
}

// waysToEnd are those of a session that was judged, with its attempt 1.
func waysToEnd(e *env) map[string]func(row) {
	return map[string]func(row){
		"end": func(s row) {
			end(e, session.Ending{RunID: s.RunID, Attempt: 1, Status: session.Finished, Age: day})
		},
		"cancel": func(s row) { cancels(e, s, session.Done) },
		"stored end": func(s row) {
			appends(e, ownEnd(s.RunID, true))
			claims(e, s, by, session.EndStored)
		},
	}
}

// endsInLease ends a session of a lease, and checks its row, and that of the next attempt.
func endsInLease(e *env, runID string, ends func(row)) {
	s := putSilent(e, runID, day)
	beginAt(e, runID, 10*time.Hour)
	freshens(e, runID, quietSince(s, 9*time.Hour))
	s, l, from := look(e, runID), observe(e, runID), clockOf(e)
	ends(s)
	to := clockOf(e)
	got, at := look(e, runID), l.RenewedAt.Add(-time.Hour-lag)
	require(got.Lease == "" && got.Activity == 0 && got.Silence == 0, "the row is %+v", got)
	within("LastEventAt", got.LastEventAt, at, at)
	within("EndedAt", got.EndedAt, from, to.Add(time.Second))
	leads(e, runID)
	next := attach(e, newSession(runID))
	require(next.EndedAt.IsZero(), "the attempt after it has ended at %v, before it began", next.EndedAt)
}

// endsEach ends sessions in one call, some of another attempt than the row's, and checks their rows.
func endsEach(e *env) {
	var ends []session.Ending
	var want []row
	for _, ending := range []session.Ending{
		{Status: session.Cancelled, Reason: "watchdog_hold_exceeded"}, {Status: session.Interrupted},
		{Status: session.Finished},
	} {
		for later := range 2 {
			s := attach(e, newSession(fmt.Sprint(ending.Status, " later ", later)))
			ending.RunID, ending.Attempt, ending.Age = s.RunID, s.Attempt+later, time.Hour
			if later == 0 {
				s.Status, s.Reason = ending.Status, ending.Reason
			}
			ends, want = append(ends, ending), append(want, s)
		}
	}
	end(e, ends...)
	for _, s := range want {
		looksLike(e, s)
	}
}

// ownEnds are the ends of runs that no sweeper wrote: by a limit of the run, by its host, once with how its command
// ended, and by another program.
func ownEnds(prefix string) []event.Event {
	ends := []event.Event{
		ownEnd(prefix+"limit", false), ownEnd(prefix+"complete", true), ownEnd(prefix+"failed", true),
		ownEnd(prefix+"unknown", false),
	}
	ends[2].Payload = []byte(`{"reason":"complete","outcome":"failed","exit_status":7}`)
	ends[3].Payload = []byte(`{"Reason":"idle_timeout"}`) // a key of another name
	return ends
}

// writesDown stores the end of a run with a state, and checks that judge has the row say what that says.
func writesDown(e *env, own event.Event, judge func(row)) {
	s := newSession(own.AggregateID)
	s.State = []byte(`{"phase":"tests","later":[1]}`)
	s = attach(e, s)
	appends(e, own)
	judge(s)
	if s.Status, s.Reason = session.StoredEnd(own); bytes.Contains(own.Payload, []byte("failed")) {
		s.State = []byte(`{"phase":"tests","later":[1],"outcome":"failed","exit_status":7}`)
	}
	stands(e, s, own.ID)
}

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
