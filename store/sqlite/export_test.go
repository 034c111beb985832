package sqlite

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// The parts with tests of their own.
var (
	ParseTime    = parseTime
	FormatTime   = formatTime
	AddVersion   = addVersion
	StripVersion = stripVersion
)

const (
	LockWait = lockWait
	MaxRows  = maxRows

	MostRows  = mostRows
	MostBytes = mostBytes
)

// ReadCommitted runs a query as every read of a store of OpenReadOnly is run.
func ReadCommitted(ctx context.Context, s *Store, query func() error) error {
	return s.readCommitted(ctx, query)
}

// SetFollowPause has Follow look at the table more often. It must be called before Follow.
func (s *Store) SetFollowPause(pause time.Duration) { s.followPause = pause }

// The statements with golden plans.
var (
	SelectStalled = selectStalled()
	SelectList    = selectList
)

const (
	SelectEnded = selectLeaseEnds
	SelectGone  = selectGone
	CancelRow   = cancelRow
	EndRow      = endRow

	FreshenBusy   = freshenBusy
	FreshenOthers = freshenOthers
	FreshenStates = freshenStates
	SelectLeased  = selectLeased
	CountLeased   = countLeased
	LeaveRows     = leaveRows
	JudgeRow      = judgeRow

	InsertRows      = insertRows
	InsertOutbox    = insertOutbox
	SelectSelection = selectSelection
	SelectMany      = selectMany
	SelectStored    = selectStored
	SelectLayers    = selectLayers
	SelectNew       = selectNew

	PutNotice     = putNotice
	SelectDue     = selectDue
	ClaimDue      = claimDue
	EndEarly      = endEarly
	DeleteNotices = deleteNotices
	DelayNotice   = delayNotice

	SelectDueStart = selectDueStart
	ClaimStart     = claimStart
	PutOffStart    = putOffStart
)

// Connections returns how many connections are open.
func (s *Store) Connections() int { return s.db.Stats().OpenConnections }

// What a store is.
var (
	_ session.Store               = (*Store)(nil)
	_ session.Lister              = (*Store)(nil)
	_ session.BatchCanceller      = (*Store)(nil)
	_ watchdog.TransactionalStore = (*Store)(nil)
	_ watchdog.FeedStore          = (*Store)(nil)
	_ watchdog.SpendStore         = (*Store)(nil)
)
