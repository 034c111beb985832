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
			outcome, err := e.store.Cancel(e.ctx, s, c)
			invalid(outcome, err)
			looksLike(e, s)
			recorded(e, homeRun)
		}},
	{"a cancel without an event is an error and changes nothing",
		"the row would say that the run was cancelled, and its events that it runs",
		func(e *env) {
			s := putSilent(e, homeRun, time.Hour)
			outcome, err := e.store.Cancel(e.ctx, s, session.CancelRequest{By: by, Reason: why})
			require(outcome == "" && err != nil, "the outcome is %q and the error %w, want an error", outcome, err)
			looksLike(e, s)
		}},
	{"a session without events is cancelled like others",
		"in SQL NULL = NULL is not true: every pass would judge such a session, and none would end it",
		func(e *env) { cancels(e, putEventless(e), session.Done) }},
}

var guardRules = []rule{
	{"a session that woke up is not cancelled, and nothing is written",
		"between the judgement and the cancel a run may continue",
		func(e *env) {
			s := putSilent(e, homeRun, time.Hour)
			awake := s
			awake.LastEventAt = s.LastEventAt.Add(time.Microsecond)
			put(e, awake)
			untouched(e, s)
		}},
	{"a session that had its first event meanwhile is not cancelled, and nothing is written",
		"a first event is a change as well: NULL is not equal to it",
		func(e *env) {
			s := putEventless(e)
			awake := s
			awake.LastEventAt = s.CreatedAt
			put(e, awake)
			untouched(e, s)
		}},
	{"a session in another attempt is not cancelled, and nothing is written",
		"another host took the run over after it was judged",
		func(e *env) {
			s := putSilent(e, homeRun, time.Hour)
			next := s
			next.Attempt++
			put(e, next)
			untouched(e, s)
		}},
	{"a session that has ended is not cancelled, and nothing is written",
		"a run that finished while it was judged did not stall",
		func(e *env) {
			s := putSilent(e, homeRun, time.Hour)
			ended := s
			ended.Status = session.Finished
			put(e, ended)
			untouched(e, s)
		}},
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
			looksLike(e, s)
			recorded(e, homeRun, "cancel of "+homeRun)
		}},
}

// putEventless writes a session that never had an event.
func putEventless(e *env) session.Session {
	s := silentSession(homeRun, clockOf(e), 0)
	s.LastEventAt = time.Time{}
	put(e, s)
	return s
}

// untouched checks that a cancel of the judged session does nothing.
func untouched(e *env, judged session.Session) {
	before := look(e, judged.RunID)
	cancels(e, judged, session.Changed)
	looksLike(e, before)
	recorded(e, judged.RunID)
}

// invalid checks that a call did nothing about an event that is invalid.
func invalid(outcome session.Outcome, err error) {
	require(outcome == "" && errors.Is(err, watchdog.ErrInvalid),
		"the outcome is %q and the error %w, want watchdog.ErrInvalid", outcome, err)
}
