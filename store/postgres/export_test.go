package postgres

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// StalledStatement returns the statement of Stalled.
func (s *Store) StalledStatement(q session.Query) (statement string, arguments []any) {
	last, err := storerows.ParsePlace(q.After)
	if err != nil {
		panic(err)
	}
	return s.qualify(selectStalled), stalledArguments(q, last)
}

// FreshenStatement returns the statement of Freshen for these runs.
func (s *Store) FreshenStatement(runIDs []string) (statement string, arguments []any) {
	attempts, ages := make([]int64, len(runIDs)), make([]int64, len(runIDs))
	for i := range runIDs {
		attempts[i] = 1
	}
	return s.qualify(freshenRows), []any{runIDs, attempts, ages}
}

// EndStatement returns the statement of End for these runs.
func (s *Store) EndStatement(runIDs []string) (statement string, arguments []any) {
	attempts, statuses := make([]int64, len(runIDs)), make([]string, len(runIDs))
	for i := range runIDs {
		attempts[i], statuses[i] = 1, string(session.Finished)
	}
	return s.qualify(endRows), []any{runIDs, attempts, statuses, make([]string, len(runIDs))}
}

// CancelStatement returns the statement of Cancel, without events.
func (s *Store) CancelStatement(judged session.Session) (statement string, arguments []any) {
	columns, err := encode(nil)
	if err != nil {
		panic(err)
	}
	return s.qualify(cancelRow), append(columns[:],
		judged.RunID, judged.Attempt, nullTime(judged.LastEventAt), "reason", 0, s.channel())
}

// AttachStatement returns the statement of Attach.
func (s *Store) AttachStatement(runID string, at time.Time) (statement string, arguments []any) {
	return s.qualify(attachRow), []any{runID, "", int64(0), at, ""}
}

// EndedStatement returns the statement of Ended.
func (s *Store) EndedStatement(mark string) (statement string, arguments []any) {
	return s.qualify(selectEnded), []any{mark}
}

// ReadStatement returns the statement of Read.
func (s *Store) ReadStatement(aggregateType, aggregateID string) (statement string, arguments []any) {
	return s.qualify(selectEvents), []any{aggregateType, aggregateID}
}

// SelectStatement returns the statement of Select, which Transact uses, too.
func (s *Store) SelectStatement(asked ...watchdog.Selection) (statement string, arguments []any) {
	return s.qualify(selectSelected), selectArguments(asked)
}

// LayersStatement returns the statement of Layers.
func (s *Store) LayersStatement(parent string) (statement string, arguments []any) {
	return s.qualify(selectLayers), []any{parent}
}

// FollowStatement returns the statement of a poll of Follow.
func (s *Store) FollowStatement(aggregateID, mark string) (statement string, arguments []any) {
	f := feed{store: s, aggregateID: aggregateID, mark: mark}
	statement, arguments = f.statement()
	return s.qualify(statement), arguments
}
