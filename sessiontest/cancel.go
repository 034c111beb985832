package sessiontest

import (
	"errors"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

var cancelRules = []rule{
	{"a session that has not changed is cancelled, as requested",
		"the run's own watchdog and the operators read the row",
		func(e *env) {
			s, c := putSilent(e, homeRun, time.Hour), cancelOf(homeRun)
			c.Reason, c.Resumes, c.StopFailed = "watchdog_idle_timeout", 3, true
			cancelsAs(e, s, c, session.Done)
			s.Status, s.Reason, s.Resumes, s.StopFailed, s.Claim = session.Cancelled, c.Reason, 3, true, by
			looksLike(e, s)
		}},
	{"the events of a cancel are stored with it",
		"if a session ended and its run has no cancel event, the next start continues the run",
		func(e *env) {
			s, c := putSilent(e, homeRun, time.Hour), cancelOf(homeRun)
			advisory, terminal := warning(homeRun), cancelEvent("terminal", homeRun, noon.Add(time.Second))
			c.Events = []watchdog.Event{advisory, terminal}
			cancelsAs(e, s, c, session.Done)
			recorded(e, homeRun, advisory.ID, terminal.ID)
		}},
	{"a cancel with an invalid event is an error and changes nothing",
		"it is one transaction: nobody could find out why a row without its events was cancelled",
		func(e *env) {
			s, c := putSilent(e, homeRun, time.Hour), cancelOf(homeRun)
			c.Events = append(c.Events, cancelEvent("", homeRun, noon))
			outcome, err := e.Store.Cancel(e.Ctx, s, c)
			invalid(outcome, err)
			stands(e, s)
		}},
	{"a cancel without an event is an error and changes nothing",
		"the row would say that the run was cancelled, and its events that it runs",
		func(e *env) {
			s := putSilent(e, homeRun, time.Hour)
			outcome, err := e.Store.Cancel(e.Ctx, s, session.CancelRequest{By: by, Reason: why})
			require(outcome == "" && err != nil, "the outcome is %q and the error %w, want an error", outcome, err)
			looksLike(e, s)
		}},
	{"a session without events is cancelled like others",
		"in SQL NULL = NULL is not true: every pass would judge such a session, and none would end it",
		func(e *env) { cancels(e, putEventless(e), session.Done) }},
}

var guardRules = []rule{
	guardRule("that woke up", "between the judgement and the cancel a run may continue",
		func(s *session.Session) { s.LastEventAt = s.LastEventAt.Add(time.Microsecond) }),
	{"a session that had its first event meanwhile is not cancelled, and nothing is written",
		"a first event is a change as well: NULL is not equal to it",
		func(e *env) {
			sparesChanged(e, putEventless(e), func(s *session.Session) { s.LastEventAt = s.CreatedAt })
		}},
	guardRule("in another attempt", "another host took the run over after it was judged",
		func(s *session.Session) { s.Attempt++ }),
	guardRule("that has ended", "a run that finished while it was judged did not stall",
		func(s *session.Session) { s.Status = session.Finished }),
	{"a run without a row is not cancelled, and nothing is written",
		"somebody may delete a row while it is judged",
		func(e *env) {
			s := silentSession("unknown", noon, time.Hour)
			cancels(e, s, session.Changed)
			recorded(e, s.RunID)
		}},
	{"of two cancels of one session the first counts",
		"a pass that is repeated after an error must not cancel again",
		func(e *env) {
			s, second := putSilent(e, homeRun, time.Hour), cancelOf(homeRun)
			cancels(e, s, session.Done)
			second.By, second.Reason, second.Events[0].ID = "pass-2", "another", "another"
			cancelsAs(e, s, second, session.Changed)
			s.Status, s.Reason, s.Claim = session.Cancelled, why, by
			stands(e, s, "cancel of "+homeRun)
		}},
}

// putEventless writes a session that never had an event.
func putEventless(e *env) session.Session {
	s := silentSession(homeRun, clockOf(e), 0)
	s.LastEventAt = time.Time{}
	put(e, s)
	return s
}

// guardRule is the rule that a session is not cancelled if its row has changed since it was judged.
func guardRule(which, why string, change func(s *session.Session)) rule {
	return rule{"a session " + which + " is not cancelled, and nothing is written", why,
		func(e *env) { sparesChanged(e, putSilent(e, homeRun, time.Hour), change) }}
}

// sparesChanged changes the row of a judged session, and checks that a cancel of the session does nothing.
func sparesChanged(e *env, judged session.Session, change func(s *session.Session)) {
	row := judged
	change(&row)
	put(e, row)
	cancels(e, judged, session.Changed)
	stands(e, row)
}

// invalid checks that a call did nothing about an event that is invalid.
func invalid(outcome session.Outcome, err error) {
	require(outcome == "" && errors.Is(err, watchdog.ErrInvalid),
		"the outcome is %q and the error %w, want watchdog.ErrInvalid", outcome, err)
}
