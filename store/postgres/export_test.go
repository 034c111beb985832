package postgres

import (
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// StalledStatement is what Stalled asks.
func (s *Store) StalledStatement(q session.Query) (statement string, arguments []any) {
	last, err := parsePlace(q.After)
	if err != nil {
		panic(err)
	}
	return s.qualify(selectStalled), stalledArguments(q, last)
}

// FreshenStatement is what Freshen does to so many sessions.
func (s *Store) FreshenStatement(runIDs []string) (statement string, arguments []any) {
	attempts, ages := make([]int64, len(runIDs)), make([]int64, len(runIDs))
	for i := range runIDs {
		attempts[i] = 1
	}
	return s.qualify(freshenRows), []any{runIDs, attempts, ages}
}

// EndStatement is what End does to so many sessions.
func (s *Store) EndStatement(runIDs []string) (statement string, arguments []any) {
	attempts, statuses := make([]int64, len(runIDs)), make([]string, len(runIDs))
	for i := range runIDs {
		attempts[i], statuses[i] = 1, string(session.Finished)
	}
	return s.qualify(endRows), []any{runIDs, attempts, statuses, make([]string, len(runIDs))}
}

// CancelStatement is what Cancel does, without events.
func (s *Store) CancelStatement(judged session.Session) (statement string, arguments []any) {
	columns, err := encode(nil)
	if err != nil {
		panic(err)
	}
	return s.qualify(cancelRow), append(columns[:], judged.RunID, judged.Attempt, nullTime(judged.LastEventAt), "reason", 0, s.channel())
}

// AttachStatement is what Attach does.
func (s *Store) AttachStatement(runID string, at time.Time) (statement string, arguments []any) {
	return s.qualify(attachRow), []any{runID, "", int64(0), at, ""}
}

// EndedStatement is what Ended asks.
func (s *Store) EndedStatement(mark string) (statement string, arguments []any) {
	return s.qualify(selectEnded), []any{mark}
}

// ReadStatement is what Read asks.
func (s *Store) ReadStatement(aggregateType, aggregateID string) (statement string, arguments []any) {
	return s.qualify(selectEvents), []any{aggregateType, aggregateID}
}
