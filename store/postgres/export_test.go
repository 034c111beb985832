package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// SetHostClock sets the clock by which Take guesses the database's window, and returns a function that restores it.
func SetHostClock(clock func() time.Time) (restore func()) {
	before := hostClock
	hostClock = clock
	return func() { hostClock = before }
}

// SetFollowPause has Follow poll more often. It must be called before Follow.
func (s *Store) SetFollowPause(pause time.Duration) { s.followPause = pause }

// Setting returns one of the server's settings in a transaction of the store.
func (s *Store) Setting(ctx context.Context, name string) (string, error) {
	return queryRow(ctx, s, pgx.RowTo[string], `SELECT pg_catalog.current_setting($1)`, name)
}

// LockSpendStatement returns the statement of Take that locks a scope.
func (s *Store) LockSpendStatement(scope, window string) (statement string, arguments []any) {
	return s.qualify(lockSpend), []any{scope, []string{"", window}}
}

// LockScopeStatement returns the statement of Take that waits for its turn.
func (s *Store) LockScopeStatement(scope string) (statement string, arguments []any) {
	return s.qualify(lockScope), []any{scope, s.scopeLocks()}
}

// LockScopeOfSliceStatement returns the statement of Return that waits for its turn.
func (s *Store) LockScopeOfSliceStatement(id string) (statement string, arguments []any) {
	return s.qualify(lockScopeOfSlice), []any{id, s.scopeLocks()}
}

// SliceStatement returns the statement of Take and Return that reads a slice.
func (s *Store) SliceStatement(id string) (statement string, arguments []any) {
	return s.qualify(selectSlice), []any{id}
}

// LockWindowStatement returns the statement of Return that locks the window of a slice.
func (s *Store) LockWindowStatement(id string) (statement string, arguments []any) {
	return s.qualify(lockSliceWindow), []any{id}
}

// StalledStatement returns the statement of Stalled.
func (s *Store) StalledStatement(q session.Query) (statement string, arguments []any) {
	last, err := storerows.ParsePlace(q.After)
	if err != nil {
		panic(err)
	}
	return s.qualify(selectStalled), stalledArguments(q, last)
}

// FreshenStatement returns the statement of Freshen.
func (s *Store) FreshenStatement(lease string, fresh []session.Freshness) (statement string, arguments []any) {
	return s.qualify(freshenRows), freshenArguments(lease, fresh)
}

// EndStatement returns the statement of End.
func (s *Store) EndStatement(ends []session.Ending) (statement string, arguments []any) {
	return s.qualify(endRows), endArguments(ends)
}

// CancelStatement returns the statement of Cancel, without events.
func (s *Store) CancelStatement(judged session.Session) (statement string, arguments []any) {
	columns, err := encode(nil)
	if err != nil {
		panic(err)
	}
	return s.qualify(cancelRow()), append(append(judgedArguments(judged, "pass"), columns[:]...), "reason", 0, false, s.channel(), 1)
}

// ClaimStartStatement returns the statement of ClaimStart.
func (s *Store) ClaimStartStatement() (statement string, arguments []any) {
	return s.qualify(claimStart), []any{int64(1000)}
}

// PutOffStartStatement returns the statement of PutOffStart.
func (s *Store) PutOffStartStatement(runID string) (statement string, arguments []any) {
	return s.qualify(putOffStart), []any{runID, 1, "key", 1, int64(1000)}
}

// PutNoticesStatement returns the statement of PutNotices.
func (s *Store) PutNoticesStatement(notices ...session.Notice) (statement string, arguments []any) {
	return s.qualify(putNotices), noticeColumns(notices)
}

// ClaimNoticesStatement returns the statement of ClaimNotices.
func (s *Store) ClaimNoticesStatement(most int) (statement string, arguments []any) {
	return s.qualify(claimNotices), []any{int64(most), int64(1000)}
}

// FinishNoticesStatement returns the statement of FinishNotices.
func (s *Store) FinishNoticesStatement(ids ...string) (statement string, arguments []any) {
	return s.qualify(finishNotices), []any{ids}
}

// DelayNoticeStatement returns the statement of DelayNotice.
func (s *Store) DelayNoticeStatement(id string) (statement string, arguments []any) {
	return s.qualify(delayNotice), []any{id, int64(1), int64(1000), storerows.LongestWait}
}

// AttachStatement returns the statement of Attach.
func (s *Store) AttachStatement(run session.Session) (statement string, arguments []any) {
	return s.qualify(attachRow), s.attachArguments(run)
}

// ClaimStatement returns the statement of Claim.
func (s *Store) ClaimStatement(judged session.Session) (statement string, arguments []any) {
	return s.qualify(claimRow), claimArguments(judged, session.ClaimRequest{By: "pass", For: 1, EndID: "end"})
}

// ListStatement returns the statement of List.
func (s *Store) ListStatement(q session.ListQuery) (statement string, arguments []any) {
	last, err := storerows.ParsePlace(q.After)
	if err != nil {
		panic(err)
	}
	statement, arguments = listStatement(q, last)
	return s.qualify(statement), arguments
}

// LeaveStatement returns the statement that takes rows out of a lease.
func (s *Store) LeaveStatement(lease string) (statement string, arguments []any) {
	return s.qualify(leaveRows), []any{lease, session.ExpireBatch, true, "4 0 lease"}
}

// LeaseSessionsStatement returns the statement of LeaseSessions.
func (s *Store) LeaseSessionsStatement(lease string) (statement string, arguments []any) {
	return s.qualify(selectLeased), []any{lease}
}

// EndedStatement returns the statement of Ended.
func (s *Store) EndedStatement(lease string) (statement string, arguments []any) {
	return s.qualify(selectLeaseEnds), []any{lease}
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

// ArrayOfTexts and the next three return the texts of arrays.
func ArrayOfTexts(all ...string) string { return arrayOf(all, appendText[string]) }

// ArrayOrNull has NULL for an empty text.
func ArrayOrNull(all ...string) string { return arrayOf(all, array.textOrNull) }

// ArrayOfNumbers has numbers.
func ArrayOfNumbers(all ...int64) string { return arrayOf(all, array.number) }

// ArrayOfTimes has times.
func ArrayOfTimes(all ...time.Time) string { return arrayOf(all, array.time) }

func arrayOf[T any](all []T, add func(array, T) array) string {
	var a array
	for _, one := range all {
		a = add(a, one)
	}
	return a.String()
}

// What a store is.
var (
	_ watchdog.TransactionalStore = (*Store)(nil)
	_ watchdog.FeedStore          = (*Store)(nil)
	_ watchdog.SpendStore         = (*Store)(nil)
	_ session.Store               = (*Store)(nil)
	_ session.Listener            = (*Store)(nil)
	_ session.Lister              = (*Store)(nil)
	_ session.BatchCanceller      = (*Store)(nil)
	_ session.Outbox              = (*Store)(nil)
)
