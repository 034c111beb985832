package main

import (
	"encoding/json"
	"io"

	"github.com/seed62658d38/watchdog/examples/autosession/internal/state"
)

// statusError is the status in a result that no session has: the program could not do its work.
const statusError state.Status = "error"

// A result is what -json prints. Every key is always there.
type result struct {
	Status state.Status `json:"status"`
	// Phase is the phase that the session is in or goes on with; null once it is complete, or where there is no session.
	Phase *string `json:"phase"`
	// StopReasonCode is why the session is blocked; null where it is not.
	StopReasonCode   *string     `json:"stop_reason_code"`
	AutoSessionID    *string     `json:"auto_session_id"`
	SessionStartedAt *state.Time `json:"session_started_at"`
	// ElapsedSeconds is what was used of the window, floored; for a blocked session, when it was stopped.
	ElapsedSeconds int64 `json:"elapsed_seconds"`
	// BudgetSeconds is what the window was allowed; 0 is no limit.
	BudgetSeconds float64 `json:"budget_seconds"`
}

// result tells how the session stands; err is what went wrong besides.
func (s *session) result(err error) result {
	if s.kept == nil {
		return result{Status: statusError}
	}
	r := result{
		Status: s.kept.Status, Phase: known(s.kept.Phase), StopReasonCode: known(string(s.kept.StopReason)),
		AutoSessionID: known(s.kept.ID), SessionStartedAt: &s.kept.StartedAt,
		ElapsedSeconds: s.kept.ElapsedSeconds, BudgetSeconds: s.kept.Budget.WallClockSeconds,
	}
	if s.stop != nil {
		r.BudgetSeconds = s.stop.Budget.Seconds()
	}
	if err != nil && s.stop == nil {
		r.Status = statusError
	}
	return r
}

// known is nil for what is empty, which JSON says as null.
func known(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func writeResult(out io.Writer, r result) error {
	return json.NewEncoder(out).Encode(r)
}

// exit is the exit status for how the session stands.
func (s *session) exit() int {
	switch {
	case s.stop != nil:
		return exitBlocked
	case s.kept != nil && s.kept.Status == state.Complete:
		return exitComplete
	}
	return exitError
}
