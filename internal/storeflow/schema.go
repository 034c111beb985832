package storeflow

import (
	"fmt"
	"slices"
)

// A Part is what a version of the schema makes: a table, or columns of one that is there.
type Part struct {
	Version int
	Table   string
	// Columns are those by which the table is known: one without them is somebody else's.
	Columns []string
	// Added are columns that the version adds, with their types. Each can be NULL or has a default, so that programs of
	// versions before, which do not know it, go on writing rows.
	Added []AddedColumn
}

// An AddedColumn is a column and its type, for which each store has a text.
type AddedColumn struct{ Name, Type string }

// Parts are those of the schema in both stores, in the order of their versions. A store can know its tables by more
// columns.
//
// A row of watchdog_sessions is in a lease only if leased is its attempt: a program that knows no leases counts the
// attempt up when it attaches, and so takes the row out of the lease. While a row is in a lease its threshold is
// watchdog.NoLimit, so that the sweepers of such programs never find it, and own_threshold is its threshold. Leased is
// the attempt with a minus for a row whose process was seen to die.
//
// Activity is in nanoseconds of the lease's clock, NULL for a run that has not signalled. It is in no index. A row that
// is quiet has one of two columns: quiet_since, its activity, if it has no threshold of its own, or else quiet_due, its
// activity and its threshold. Both are NULL for a session that is not quiet: signs of life of a busy session change no
// index.
//
// A row with an allowance has no threshold. Its own_threshold is for programs that know no allowance, and its quiet_due
// has the allowance added. An allowance that allowed says is of an earlier attempt, which such a program followed, is
// void.
//
// A row that left a lease which expired says in expired_lease for which attempt, how often in a row the lease was found
// not renewed, when it was renewed last, in microseconds since 1970, and its ID.
//
// The columns of a warning beside its time are what the session was like when it was warned, or its agents were
// stopped: after a sign of life warned_at and, of an active session, stop_failed are void.
//
// Covered is as vouched, without the rows that cannot be written now; behind names these.
var Parts = []Part{
	{Version: 2, Table: "watchdog_sessions", Columns: []string{
		"run_id", "parent", "status", "created_at", "last_event_at", "threshold", "started_at", "host", "attempt",
		"resumes", "reason", "ended",
	}},
	{Version: 3, Table: "watchdog_leases", Columns: []string{
		"id", "host", "promise", "beat", "clock", "vouched", "renewed_at", "looks", "expired",
	}, Added: []AddedColumn{{"covered", "integer"}, {"behind", "JSON"}}},
	{Version: 3, Table: "watchdog_sessions", Added: []AddedColumn{
		{"lease", "lease ID"}, {"leased", "integer"}, {"activity", "integer"}, {"quiet_since", "integer"}, {"quiet_due", "integer"},
		{"own_threshold", "integer"}, {"state", "JSON"}, {"claim", "text"}, {"claimed_until", "time"}, {"warned_at", "time"},
		{"warned_attempt", "integer"}, {"warned_lease", "text"}, {"warned_beat", "integer"}, {"warned_last_event", "time"},
		{"stop_failed", "flag"}, {"allowance", "integer"}, {"allowed", "integer"}, {"expired_lease", "text"},
	}},
	{Version: 3, Table: "watchdog_outbox", Columns: []string{
		"id", "event_id", "aggregate_type", "aggregate_id", "event_type", "created_at",
	}},
	{Version: 4, Table: "watchdog_spend", Columns: slices.Concat(
		[]string{"scope", "window_name", "currency", "ends_at"}, SpendKinds)},
	{Version: 4, Table: "watchdog_slices", Columns: []string{
		"id", "scope", "window_name", "taken_at", "host", "pid", "granted_cost", "returned_at", "returned_cost",
	}},
	// Due_at is when a notice is due, or until when it is claimed; a row of a version before is due, and was never
	// claimed. Paused_at is when due_at was set, and waited are its delays in all, in microseconds.
	{Version: 5, Table: "watchdog_outbox", Added: []AddedColumn{
		{"due_at", "since"}, {"tries", "count"}, {"paused_at", "since"}, {"waited", "count"},
	}},
	{Version: 6, Table: "watchdog_lease_ends", Columns: []string{"lease", "run_id", "attempt"}},
}

// Additions calls add for each column that a version adds, with the type that the store has for it.
func Additions(parts []Part, version int, types map[string]string, add func(table, column, of string) error) error {
	for _, p := range parts {
		for _, c := range p.Added {
			if p.Version != version {
				continue
			}
			if err := add(p.Table, c.Name, types[c.Type]); err != nil {
				return fmt.Errorf("add column %s to %s: %w", c.Name, p.Table, err)
			}
		}
	}
	return nil
}

// CompleteVersion returns the newest version of which all tables and columns exist, the given one at most. Names returns
// the columns of a table, none if there is no such table. If a table that exists is not ours CompleteVersion returns the
// error of foreign.
func CompleteVersion(
	version int, parts []Part, names func(table string) ([]string, error), foreign func(table string, lacks []string) error,
) (int, error) {
	for _, p := range parts {
		exist, err := names(p.Table)
		if err != nil {
			return 0, err
		}
		if lacks := without(p.Columns, exist); len(exist) > 0 && len(lacks) > 0 {
			return 0, foreign(p.Table, lacks)
		}
		adds := func(c AddedColumn) bool { return !slices.Contains(exist, c.Name) }
		if len(exist) == 0 || slices.ContainsFunc(p.Added, adds) {
			version = min(version, p.Version-1)
		}
	}
	return version, nil
}

// without returns the names that do not exist.
func without(names, exist []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(exist, name) })
}
