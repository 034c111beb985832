package sessiontest

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

func cancelOf(runID string) session.CancelRequest {
	return session.CancelRequest{
		By: by, Reason: why, Events: []watchdog.Event{cancelEvent("cancel of "+runID, runID, noon)},
	}
}

// toCancel writes a silent session, and returns it with a cancel of it.
func toCancel(e *env) (session.Session, session.CancelRequest) { return silent(e), cancelOf(homeRun) }

func cancelEvent(id, runID string, at time.Time) watchdog.Event {
	return watchdog.Event{
		ID: id, AggregateType: watchdog.AggregateType, AggregateID: runID, Type: watchdog.EventCancel,
		Payload: []byte(`{"reason":"idle_timeout"}`), Timestamp: at,
	}
}

func warning(runID string) watchdog.Event {
	event := cancelEvent("warning of "+runID, runID, noon)
	event.Type = watchdog.EventWarning
	return event
}

// ownEnd is the end that a run writes itself. It has the ID of a cancel's event.
func ownEnd(runID string, complete bool) watchdog.Event {
	event := cancelOf(runID).Events[0]
	event.Payload = []byte(`{"reason":"wall_clock_exceeded"}`)
	if complete {
		event.Type, event.Payload = watchdog.EventComplete, []byte(`{"completed_at":"2026-03-04T12:00:00Z"}`)
	}
	return event
}

// cancels checks what becomes of a cancel.
func cancels(e *env, judged session.Session, want session.Outcome) {
	cancelsAs(e, judged, cancelOf(judged.RunID), want)
}

func cancelsAs(e *env, judged session.Session, c session.CancelRequest, want session.Outcome) {
	got, err := e.Store.Cancel(e.Ctx, judged, c)
	came("cancel", judged.RunID, got, want, err)
}

func cancelsEach(e *env, all []session.Session) {
	for _, s := range all {
		cancels(e, s, session.Done)
	}
}

// claims checks what becomes of a claim for an hour.
func claims(e *env, judged session.Session, by string, want session.Outcome) {
	claimsFor(e, judged, by, time.Hour, want)
}

func claimsFor(e *env, judged session.Session, by string, length time.Duration, want session.Outcome) {
	claimsAs(e, judged, session.ClaimRequest{By: by, For: length, EndID: "cancel of " + judged.RunID}, want)
}

func claimsAs(e *env, judged session.Session, c session.ClaimRequest, want session.Outcome) {
	got, err := e.Store.Claim(e.Ctx, judged, c)
	came("claim", judged.RunID, got, want, err)
}

// warns checks what becomes of a warning.
func warns(e *env, judged session.Session, want session.Outcome) {
	got, err := e.Store.Warn(e.Ctx, judged, []watchdog.Event{warning(judged.RunID)})
	came("warn", judged.RunID, got, want, err)
}

// came checks what became of a call about a judged session.
func came(call, runID string, got, want session.Outcome, err error) {
	must(err, "%s %q", call, runID)
	require(got == want, "%s %q: the outcome is %q, want %q", call, runID, got, want)
}
