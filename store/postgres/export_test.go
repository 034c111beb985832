package postgres

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
)

// Setting returns one of the server's settings in a transaction of the store.
func (s *Store) Setting(ctx context.Context, name string) (string, error) {
	return queryRow(ctx, s, pgx.RowTo[string], `SELECT pg_catalog.current_setting($1)`, name)
}

// Patient has the store wait for each lock for an hour, and returns it. It is for tests in which others hold a lock while
// they do something, which takes a busy machine longer than [session.LockWait], and in which a call that must not wait
// for a lock would wait for longer than its context allows. The store must not be in use.
func (s *Store) Patient() *Store {
	patient := strings.NewReplacer(strconv.FormatInt(session.LockWait.Milliseconds(), 10), "3600000").Replace
	s.settings, s.beginQuery = patient(s.settings), patient(s.beginQuery)
	s.qualified.Store(lockBuckets, patient(s.qualify(lockBuckets)))
	return s
}

// A Planned is a statement whose plan is looked at, with arguments.
type Planned struct {
	Name, Statement string
	Arguments       []any
	Long            bool // the plan contains a list
}

// Planned returns the statements that a store of many sessions must carry out fast. The first one is that of Stalled.
func (s *Store) Planned(
	judged session.Session, ten, next session.Query, fresh []session.Freshness, ends []session.Ending,
) []Planned {
	stalled := func(name string, q session.Query) Planned {
		last, err := session.ParsePlace(q.After)
		if err != nil {
			panic(err)
		}
		return Planned{name, selectStalled, stalledArguments(q, last), false}
	}
	list := func(name string, q session.ListQuery) Planned {
		last, err := session.ParsePlace(q.After)
		if err != nil {
			panic(err)
		}
		q.Limit = 10
		statement, arguments := listStatement(q, last)
		return Planned{name, statement, arguments, false}
	}
	columns, err := encode(nil)
	if err != nil {
		panic(err)
	}
	cancel := append(append(judgedArguments(judged, "pass"), columns[:]...), "reason", 0, false, s.channel(), 1)
	claim := claimArguments(judged, session.ClaimRequest{By: "pass", For: 1, EndID: "end"})
	run := session.Session{RunID: judged.RunID, Lease: "lease-1"}
	all := []Planned{
		stalled("find ten of fifty", ten),
		stalled("find ten more", next),
		{"cancel one", cancelRow(), cancel, false},
		{"attach to one", attachRow, s.attachArguments(run), false},
		{"ask for what ended", selectLeaseEnds, []any{"lease-1"}, false},
		{"freshen ten", freshenRows, freshenArguments("lease-1", fresh[:10]), true},
		{"freshen ten thousand", freshenRows, freshenArguments("lease-1", fresh), true},
		{"end ten thousand", endRows, endArguments(ends), true},
		{"claim one", claimRow, claim, false},
		{"claim a start", claimStart, []any{int64(1000)}, false},
		{"put off a start", putOffStart, []any{judged.RunID, 1, "key", 1, int64(1000)}, false},
		{"take rows out of a lease", leaveRows, []any{"lease-1", session.ExpireBatch, true, "4 0 lease"}, false},
		{"find the rows of a lease", selectLeased, []any{"lease-1"}, false},
		list("list", session.ListQuery{}),
		list("list more", session.ListQuery{After: "1700000000000000 run-1"}),
		list("list live ones", session.ListQuery{Live: true}),
		list("list those of a host", session.ListQuery{Host: "host-3"}),
		list("list the layers of a run", session.ListQuery{Parent: "parent-host-3"}),
		{"read the events of one", selectEvents, []any{event.AggregateType, judged.RunID}, false},
	}
	for i := range all {
		all[i].Statement = s.qualify(all[i].Statement)
	}
	return all
}

// SelectStatement returns the statement of Select, which Transact uses, too.
func (s *Store) SelectStatement(asked ...event.Selection) (statement string, arguments []any) {
	return s.qualify(selectSelected), selectArguments(asked)
}

// LayersStatement returns the statement of Layers.
func (s *Store) LayersStatement(parent string) (statement string, arguments []any) {
	return s.qualify(selectLayers), []any{parent}
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
	_ event.TransactionalStore = (*Store)(nil)
	_ event.LayerStore         = (*Store)(nil)
	_ session.Store            = (*Store)(nil)
	_ session.Listener         = (*Store)(nil)
	_ session.Lister           = (*Store)(nil)
	_ session.BatchCanceller   = (*Store)(nil)
)
