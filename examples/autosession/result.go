package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/examples/autosession/internal/state"
)

// statusError is a status of results only: the program itself failed.
const statusError state.Status = "error"

// A result is the output of -json. Every key is always there.
type result struct {
	Status state.Status `json:"status"`
	// Phase is the current or the next phase; null once the session is complete, or without a session.
	Phase *string `json:"phase"`
	// StopReasonCode is why the session is blocked; null if it is not.
	StopReasonCode   *string     `json:"stop_reason_code"`
	AutoSessionID    *string     `json:"auto_session_id"`
	SessionStartedAt *state.Time `json:"session_started_at"`
	// ElapsedSeconds is the used part of the window, floored; for a blocked session, at its stop.
	ElapsedSeconds int64 `json:"elapsed_seconds"`
	// BudgetSeconds is the budget of the window; 0 is no limit.
	BudgetSeconds float64 `json:"budget_seconds"`
}

// result returns the result of the session; err is a failure outside of its phases.
func (s *session) result(err error) result {
	if s.kept == nil {
		return result{Status: statusError}
	}
	r := result{
		Status: s.kept.Status, Phase: nullable(s.kept.Phase), StopReasonCode: nullable(string(s.kept.StopReason)),
		AutoSessionID: nullable(s.kept.ID), SessionStartedAt: &s.kept.StartedAt,
		ElapsedSeconds: s.kept.ElapsedSeconds, BudgetSeconds: s.kept.Budget.WallClockSeconds,
	}
	switch {
	case s.stop != nil:
		r.BudgetSeconds = s.stop.Budget.Seconds()
	case err != nil:
		r.Status = statusError
	}
	return r
}

func (r result) write(out io.Writer) error { return json.NewEncoder(out).Encode(r) }

// nullable returns nil, which is null in JSON, for an empty text.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// exit returns the exit status for the session's status.
func (s *session) exit() int {
	switch {
	case s.stop != nil:
		return exitBlocked
	case s.kept != nil && s.kept.Status == state.Complete:
		return exitComplete
	}
	return exitError
}

// printEvents prints the events of a session, oldest first. The session may be running, and its file may be damaged.
func printEvents(opts options, out io.Writer) (err error) {
	dir, err := findState(opts)
	id := opts.session
	if err == nil && id == "" {
		id, err = dir.Latest()
	}
	if err == nil {
		err = dir.Find(id)
	}
	if err != nil {
		return err
	}
	store, err := openStore(dir)
	if err != nil {
		return fmt.Errorf("print events of session %s: %w", id, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	events, err := store.Read(context.Background(), event.AggregateType, id)
	lines := json.NewEncoder(out)
	for _, e := range events {
		err = errors.Join(err, lines.Encode(e))
	}
	return err
}
