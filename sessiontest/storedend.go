package sessiontest

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

var storedEndRules = []rule{
	{"a cancel whose event is stored already writes down what that says, and nothing else",
		"a run that was ended by its own limit, and whose host died before it wrote the row, was not idle", func(e *env) {
			for _, own := range ownEnds("cancelled-") {
				writesDown(e, own, func(s session.Session) {
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
				writesDown(e, own, func(s session.Session) { claims(e, s, by, session.EndStored) })
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
		"a run whose guard died before it wrote the row would seem to have done its work, and is not run again",
		func(e *env) {
			failsStored(e, "failed by claim", func(s session.Session) { claims(e, s, by, session.EndStored) })
			failsStored(e, "failed by cancel", func(s session.Session) { cancels(e, s, session.EndStored) })
		}},
	{"the end of another window is none of this one",
		"a run that was cancelled, resumed and stalled again is cancelled again",
		given(silent, func(e *env, s session.Session) {
			appends(e, cancelEvent("another", homeRun, noon))
			claims(e, s, by, session.Done)
			cancels(e, s, session.Done)
			recorded(e, homeRun, "another", "cancel of "+homeRun)
		})},
	{"a lease is told of a stored end that is written down",
		"the run may be live on another host, which has not looked into its events", func(e *env) {
			all := attachEach(e, homeLease, "claimed", "cancelled")
			appends(e, ownEnd("claimed", true), ownEnd("cancelled", true))
			claims(e, all[0], by, session.EndStored)
			cancels(e, all[1], session.EndStored)
			tells(e, homeLease, nil, attemptsOf(all)...)
		}},
	{"a listener is notified of a stored end that is written down",
		"the run may be live on another host, which has not looked into its events",
		listened(func(e *env, told <-chan string) {
			s := putSilent(e, homeRun, time.Hour)
			appends(e, ownEnd(homeRun, false))
			claims(e, s, by, session.EndStored)
			receives(e, told, homeRun)
		})},
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
func failsStored(e *env, runID string, judge func(session.Session)) {
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
func writesDown(e *env, own watchdog.Event, judge func(session.Session)) {
	s := putSilent(e, own.AggregateID, time.Hour)
	appends(e, own)
	judge(s)
	s.Status, s.Reason = session.StoredEnd(own)
	stands(e, s, own.ID)
}
