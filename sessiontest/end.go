package sessiontest

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
)

var endRules = []rule{
	{"an attempt ends with the given status and reason",
		"if a finished session stays active, a sweeper cancels it, and counts it", func(e *env) { endsEach(e, 0) }},
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
	{"an end of another attempt than the row's changes nothing",
		"a host that returns and reports the end of its lost attempt would end the run that another host took over",
		func(e *env) { endsEach(e, 1) }},
	{"a session that has ended keeps its end",
		"if the watchdog overwrote a cancel, its reason would be lost", given(silent, func(e *env, s row) {
			s.Status, s.Reason = session.Cancelled, why
			put(e, s)
			finish(e, homeRun)
			looksLike(e, s)
		})},
	{"the last event of a session that ended is as old as the caller says, by the clock of the store",
		"if a host's clock is two minutes slow, its sessions would have ended before they began", func(e *env) {
			_, s, from, to := endsAfter(e, day)
			within("LastEventAt", s.LastEventAt, from.Add(-90*time.Minute), to.Add(-90*time.Minute))
		}},
	{"a session that has ended says when, by the clock of the store, however old its last event is",
		"a run that was silent for an hour before it ended would seem to have taken no time", func(e *env) {
			for name, ends := range waysToEnd(e) {
				contract.Part("by "+name, func() {
					s, from := putSilent(e, name, day), clockOf(e)
					ends(s)
					to := clockOf(e)
					within("EndedAt", look(e, name).EndedAt, from, to.Add(time.Second))
					next := attach(e, newSession(name))
					require(next.EndedAt.IsZero(), "the attempt after it has ended at %v, before it began", next.EndedAt)
				})
			}
		}},
	{"an end never moves the last event back",
		"two writes in the wrong order would make a session older than it is", func(e *env) {
			before, s, _, _ := endsAfter(e, time.Minute)
			within("LastEventAt", s.LastEventAt, before.LastEventAt, before.LastEventAt)
		}},
	{"a session that ends leaves its lease, with the time of its last activity",
		"the row of an ended session must not keep the lease of its process", func(e *env) {
			for name, ends := range waysToEnd(e) {
				contract.Part("by "+name, func() { endsInLease(e, name, ends) })
			}
		}},
	{"a cancel whose event is stored already writes down what that says, and nothing else",
		"a run that was ended by its own limit, and whose host died before it wrote the row, was not idle", func(e *env) {
			for _, own := range ownEnds("cancelled-") {
				writesDown(e, own, func(s row) {
					c := cancelOf(s.RunID)
					c.Resumes, c.StopFailed = 3, true
					c.Events = []watchdog.Event{warning(s.RunID), own}
					cancelsAs(e, s, c, session.EndStored)
				})
			}
		}},
	{"a claim on a session whose end is stored already writes down what that says",
		"the agents of a run that has ended are not stopped, and the run is not resumed", func(e *env) {
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
	{"a stored end that says how the run's command ended is in the row's state, with what that said",
		"a run whose guard died before it wrote the row would seem to have done its work, and not run again", func(e *env) {
			failsStored(e, "failed by claim", func(s row) { claims(e, s, by, session.EndStored) })
			failsStored(e, "failed by cancel", func(s row) { cancels(e, s, session.EndStored) })
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

// endsAfter ends a silent session whose host says that its last event was 90 minutes ago, between from and to.
func endsAfter(e *env, silence time.Duration) (before, after row, from, to time.Time) {
	before, from = putSilent(e, homeRun, silence), clockOf(e)
	end(e, session.Ending{RunID: homeRun, Attempt: 1, Status: session.Finished, Age: 90 * time.Minute})
	return before, look(e, homeRun), from, clockOf(e)
}

// endsInLease ends a session of a lease, and checks its row.
func endsInLease(e *env, runID string, ends func(row)) {
	s := putSilent(e, runID, day)
	beginAt(e, runID, 10*time.Hour)
	freshens(e, runID, quietSince(s, 9*time.Hour))
	s, l := look(e, runID), observe(e, runID)
	ends(s)
	got, at := look(e, runID), l.RenewedAt.Add(-time.Hour-lag)
	require(got.Lease == "" && got.Activity == 0 && got.Silence == 0, "the row is %+v", got)
	within("LastEventAt", got.LastEventAt, at, at)
	leads(e, runID)
}

// endsEach ends three sessions in one call, and checks their rows. Endings of later attempts change nothing.
func endsEach(e *env, later int) {
	var ends []session.Ending
	var want []row
	for _, status := range []session.Status{session.Cancelled, session.Interrupted, session.Finished} {
		s := attach(e, newSession(string(status)))
		ending := session.Ending{RunID: s.RunID, Attempt: s.Attempt + later, Status: status, Age: time.Hour}
		if status == session.Cancelled {
			ending.Reason = "watchdog_hold_exceeded"
		}
		if later == 0 {
			s.Status, s.Reason = ending.Status, ending.Reason
		}
		ends, want = append(ends, ending), append(want, s)
	}
	end(e, ends...)
	for _, s := range want {
		looksLike(e, s)
	}
}

// ownEnds are the ends of three runs that no sweeper wrote: by a limit of the run, by its host, and by another program.
func ownEnds(prefix string) []watchdog.Event {
	ends := []watchdog.Event{
		ownEnd(prefix+"limit", false), ownEnd(prefix+"complete", true), ownEnd(prefix+"unknown", false),
	}
	ends[2].Payload = []byte(`{"Reason":"idle_timeout"}`) // a key of another name
	return ends
}

// failsStored stores that the command of a run failed, and checks the row that judge has say that.
func failsStored(e *env, runID string, judge func(row)) {
	s, own := newSession(runID), ownEnd(runID, true)
	s.State = []byte(`{"phase":"tests","later":[1]}`)
	s = attach(e, s)
	own.Payload = []byte(`{"reason":"complete","outcome":"failed","exit_status":7}`)
	appends(e, own)
	judge(s)
	s.Status, s.Reason = session.StoredEnd(own)
	s.State = []byte(`{"phase":"tests","later":[1],"outcome":"failed","exit_status":7}`)
	looksLike(e, s)
}

// writesDown stores the end of a silent run, and checks that judge has the row say what that says.
func writesDown(e *env, own watchdog.Event, judge func(row)) {
	s := putSilent(e, own.AggregateID, time.Hour)
	appends(e, own)
	judge(s)
	s.Status, s.Reason = session.StoredEnd(own)
	stands(e, s, own.ID)
}
