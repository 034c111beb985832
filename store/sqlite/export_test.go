package sqlite

import (
	"context"

	"github.com/seed62658d38/watchdog/event"
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

var listed = []any{1, "run", 3, 4, "parent", "host", "reason"}

// Planned are the statements with golden plans, with arguments.
var Planned = map[string]struct {
	Statement string
	Arguments []any
}{
	"stalled": {selectStalled(), []any{1, 2, 3, 4, 5, "run", 7, 8}},
	"ended":   {selectLeaseEnds, []any{"lease-1"}},
	"freshen": {freshenBusy, []any{"[]", "lease"}},
	"others":  {freshenOthers, []any{"[]", "lease"}},
	"states":  {freshenStates, []any{"[]", "lease"}},
	"leased":  {selectLeased, []any{"lease", 1}},
	"count":   {countLeased, []any{"lease"}},
	"leave":   {leaveRows, []any{"[]", "lease", "", true, "4 0 lease"}},
	"judge":   {judgeRow, []any{"run", 1, "", "lease", 1, "by", "now", 1}},
	"gone":    {selectGone, []any{"[]"}},
	"cancel":  {cancelRow, []any{"run", 1, "", "reason", 0, false, "by", "key", 1}},
	"end":     {endRow, []any{"run", 1, "", "finished", "", nil}},
	"select": {selectSelection, []any{
		"runtime_control", "run", "[]", "2026-03-04 12:00:00.000000", "[]", "2026-03-04 12:00:00.000000", 1,
	}},
	"read":        {selectEvents, []any{"runtime_control", "run"}},
	"many":        {selectMany, []any{"[]"}},
	"insert":      {insertRows, []any{"[]"}},
	"stored":      {selectStored, []any{"[]"}},
	"layers":      {selectLayers, []any{"run"}},
	"due start":   {selectDueStart, []any{1}},
	"claim start": {claimStart, []any{"run", 1}},
	"put off":     {putOffStart, []any{"run", 1, "key", 1, 1}},
	"list":        {selectList(session.ListQuery{}), listed},
	"list live":   {selectList(session.ListQuery{Live: true}), listed},
	"list ended":  {selectList(session.ListQuery{Ended: true, Reason: "reason"}), listed},
	"list parent": {selectList(session.ListQuery{Live: true, Parent: "run", Host: "host"}), listed},
	"list host":   {selectList(session.ListQuery{Live: true, Host: "host"}), listed},
}

// Connections returns how many connections are open.
func (s *Store) Connections() int { return s.db.Stats().OpenConnections }

// What a store is.
var (
	_ session.Store            = (*Store)(nil)
	_ session.Lister           = (*Store)(nil)
	_ session.BatchCanceller   = (*Store)(nil)
	_ event.TransactionalStore = (*Store)(nil)
	_ event.LayerStore         = (*Store)(nil)
)
