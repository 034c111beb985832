package storeflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/internal/storerows"
)

// Newest is the newest version of the schema, and OldestReader that of the oldest program that can use it. Programs
// before version 3 do not look at that.
const (
	Newest       = 7
	OldestReader = 3
)

// A Schema is the tables of a store, by the versions that make them.
type Schema struct {
	Parts []Part
	// Prefix is before the name of a table.
	Prefix string
	// Types is what stands for a word in braces in the definition of a column.
	Types *strings.Replacer
	// Options follow the columns of a table.
	Options map[string]string
	// Index is the form of the statement that makes an index: of its name, its table and its columns.
	Index string
	// Indexes and Others follow the tables and columns of a version. Others are statements.
	Indexes map[int][]Index
	Others  map[int][]string
	// Triggers are the names of those that Others make, with their versions.
	Triggers map[string]int
	// Foreign is wrapped by the error of a table that is not ours, and Lacking says which columns that lacks.
	Foreign error
	Lacking func(columns []string) string
}

// An Index is the name of an index, its table, its columns, and the condition of the rows in it, if it has not all.
type Index [4]string

// A Database is what a Schema needs of a transaction.
type Database interface {
	// Run executes a statement, and Value reads the row of a query that has one.
	Run(statement string, arguments ...any) error
	Value(statement string, arguments []any, into ...any) error
	// Names returns the columns of a table, none if there is no such table.
	Names(table string) ([]string, error)
	// Add adds a column to a table, unless it is there.
	Add(table, column, is string) error
	// Events reports whether there is a table of events, and describes its columns.
	Events() (exists bool, columns []storerows.Column, err error)
	Indexes() ([]storerows.Index, error) // of that table
	// Triggers returns the names of all triggers, and Before is called before a version is made.
	Triggers() ([]string, error)
	Before(version int) error
}

// hasEvents reports whether there is a table of events. It fails if that cannot be used in place.
func (s *Schema) hasEvents(d Database) (bool, error) {
	exists, columns, err := d.Events()
	if err != nil || !exists {
		return false, err
	}
	indexes, err := d.Indexes()
	if err != nil {
		return false, err
	}
	if problems := storerows.TableProblems(columns, indexes); len(problems) > 0 {
		return false, fmt.Errorf("%w (events: %s)", s.Foreign, strings.Join(problems, "; "))
	}
	return true, nil
}

// A Part is what a version of the schema makes: a table, columns of it that only one store has, or columns that the
// version adds to a table.
type Part struct {
	Version int
	Table   string
	Columns []Column // a table without one of them is somebody else's
	Key     string   // after the columns
	// Added can each be NULL or have a default, so that programs of versions before, which do not know them, go on writing
	// rows.
	Added []Column
}

// A Column is the name of a column and its definition.
type Column struct{ Name, Is string }

// Parts are those of both stores, in the order of their versions.
//
// A row of watchdog_sessions is in a lease only if leased is its attempt: a program that knows no leases counts the
// attempt up when it attaches, and so takes the row out of the lease. While a row is in a lease its threshold is
// watchdog.NoLimit, so that the sweepers of such programs never find it, and own_threshold is its threshold. Leased is
// the attempt with a minus for a row whose process was seen to die. A threshold is in nanoseconds, and 0 means the
// sweeper's.
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
var Parts = []Part{
	{Version: 1, Table: "events", Columns: []Column{
		{"id", "VARCHAR(36) NOT NULL PRIMARY KEY"},
		{"aggregate_type", "VARCHAR(100) NOT NULL"},
		{"aggregate_id", "VARCHAR(255) NOT NULL"},
		{"event_type", "VARCHAR(200) NOT NULL"},
		{"payload", "{payload} NOT NULL"},
		{`"timestamp"`, "{time} NOT NULL"},
		{"consensus_id", "VARCHAR(36)"},
	}},
	{Version: 2, Table: "watchdog_sessions", Columns: []Column{
		{"run_id", "VARCHAR(255){bytes} NOT NULL PRIMARY KEY"},
		{"parent", "VARCHAR(255) NOT NULL DEFAULT ''"},
		{"status", "VARCHAR(20) NOT NULL"},
		{"created_at", "{time} NOT NULL"},
		{"last_event_at", "{time}"},
		{"threshold", "{integer} NOT NULL DEFAULT 0"},
		{"started_at", "{time} NOT NULL"},
		{"host", "{text} NOT NULL DEFAULT ''"},
		{"attempt", "{integer} NOT NULL"},
		{"resumes", "{integer} NOT NULL DEFAULT 0"},
		{"reason", "{text} NOT NULL DEFAULT ''"},
	}},
	// Each look at a lease counts looks up, which is how an observer knows that the database takes writes. Promise, clock,
	// vouched and covered are in nanoseconds, the last three by the clock of the lease's process. Covered is as vouched,
	// without the rows that cannot be written now; behind names these.
	{Version: 3, Table: "watchdog_leases", Columns: []Column{
		{"id", "VARCHAR(255){bytes} NOT NULL PRIMARY KEY"},
		{"host", "{text} NOT NULL DEFAULT ''"},
		{"promise", "{integer} NOT NULL"},
		{"beat", "{integer} NOT NULL"},
		{"clock", "{integer} NOT NULL"},
		{"vouched", "{integer} NOT NULL"},
		{"renewed_at", "{time} NOT NULL"},
		{"looks", "{integer} NOT NULL DEFAULT 0"},
		{"expired", "{time}"},
	}, Added: []Column{{"covered", "{integer}"}, {"behind", "{JSON}"}}},
	{Version: 3, Table: "watchdog_sessions", Added: []Column{
		{"lease", "{lease}"},
		{"leased", "{integer}"},
		{"activity", "{integer}"},
		{"quiet_since", "{integer}"},
		{"quiet_due", "{integer}"},
		{"own_threshold", "{integer}"},
		{"state", "{JSON}"},
		{"claim", "{text}"},
		{"claimed_until", "{time}"},
		{"warned_at", "{time}"},
		{"warned_attempt", "{integer}"},
		{"warned_lease", "{text}"},
		{"warned_beat", "{integer}"}, // the activity
		{"warned_last_event", "{time}"},
		{"stop_failed", "{flag}"},
		{"allowance", "{integer}"},
		{"allowed", "{integer}"}, // the attempt that the allowance is for
		{"expired_lease", "{text}"},
	}},
	// A scope has a row without a window name, which has its currency and is charged with what counts for ever, and a row
	// for each window that something was charged in.
	{Version: 4, Table: "watchdog_spend", Columns: slices.Concat([]Column{
		{"scope", "VARCHAR(255){bytes} NOT NULL"},
		{"window_name", "VARCHAR(64){bytes} NOT NULL"},
		{"currency", "VARCHAR(16) NOT NULL DEFAULT ''"},
		{"ends_at", "{time}"},
	}, kindColumns("", "{integer} NOT NULL DEFAULT 0")), Key: "PRIMARY KEY (scope, window_name)"},
	{Version: 4, Table: "watchdog_slices", Columns: slices.Concat([]Column{
		{"id", "VARCHAR(36){bytes} NOT NULL PRIMARY KEY"},
		{"scope", "VARCHAR(255){bytes} NOT NULL"},
		{"window_name", "VARCHAR(64){bytes} NOT NULL"},
		{"taken_at", "{time} NOT NULL"},
		{"host", "{text} NOT NULL DEFAULT ''"},
		{"pid", "{integer} NOT NULL DEFAULT 0"},
	}, kindColumns("granted_", "{integer} NOT NULL"), []Column{{"returned_at", "{time}"}},
		kindColumns("returned_", "{integer} NOT NULL DEFAULT 0"))},
	// The outbox has a row for each end of a run, written in the transaction of the end event: a program that reads it
	// misses no end, and is told of none that was rolled back.
	{Version: 3, Table: "watchdog_outbox", Columns: []Column{
		{"id", "{serial} PRIMARY KEY{autoincrement}"},
		{"event_id", "{text(36)} NOT NULL"},
		{"aggregate_type", "{text(100)} NOT NULL"},
		{"aggregate_id", "{text(255)} NOT NULL"},
		{"event_type", "{text(200)} NOT NULL"},
		{"created_at", "{time} NOT NULL"},
	}},
	// Due_at is when a notice is due, or until when it is claimed; a row of a version before is due, and was never
	// claimed. Paused_at is when due_at was set, and waited are its delays in all, in microseconds.
	{Version: 5, Table: "watchdog_outbox", Added: []Column{
		{"due_at", "{time} NOT NULL DEFAULT {before}"},
		{"tries", "{integer} NOT NULL DEFAULT 0"},
		{"paused_at", "{time} NOT NULL DEFAULT {before}"},
		{"waited", "{integer} NOT NULL DEFAULT 0"},
	}},
	// The attempts whose rows were in a lease when another process than that of the lease ended them, or took them over. A
	// row is written in that transaction, deleted when the lease's process was told of it, and goes with the lease.
	//
	// Rejected: to ask watchdog_sessions what ended since a transaction. Every keeper read what the whole fleet had ended,
	// and as long as any transaction of the server stayed open the same again and again.
	{Version: 6, Table: "watchdog_lease_ends", Columns: []Column{
		{"lease", "{lease}{cascade} NOT NULL"},
		{"run_id", "VARCHAR(255){bytes} NOT NULL"},
		{"attempt", "{integer} NOT NULL"},
	}, Key: "PRIMARY KEY (lease, run_id, attempt)"},
	// The key of a start that is wanted, for which attempt, how often it was claimed, and when it can be claimed again.
	// Versions before leave the columns as they are, so that they are void in another attempt.
	{Version: 7, Table: "watchdog_sessions", Added: []Column{
		{"start_key", "{text}"},
		{"start_attempt", "{integer}"},
		{"start_tries", "{integer}"},
		{"start_due", "{due}"},
	}},
}

func kindColumns(prefix, is string) (all []Column) {
	for _, kind := range SpendKinds {
		all = append(all, Column{prefix + kind, is})
	}
	return all
}

// Version returns the version of the schema, 0 if there is none of ours. It fails if the version is newer than this
// one, and does not say that this one can use it.
func (s *Schema) Version(d Database) (version int, err error) {
	names, err := d.Names("watchdog_schema")
	if err != nil || len(names) == 0 {
		return 0, err
	}
	reader := "0"
	if slices.Contains(names, "oldest_reader") {
		reader = "coalesce(oldest_reader, 0)"
	}
	oldest := 0
	err = d.Value(fmt.Sprintf(`
		SELECT coalesce((SELECT version FROM %[1]s ORDER BY version DESC LIMIT 1), 0),
			coalesce((SELECT %[2]s FROM %[1]s ORDER BY version DESC LIMIT 1), 0)`,
		s.Prefix+"watchdog_schema", reader), nil, &version, &oldest)
	if err != nil {
		return 0, err
	}
	return version, storerows.CheckVersion(version, oldest, Newest)
}

// CheckReadable returns the version of a schema of which only the events have to be there. It fails if they are not.
func (s *Schema) CheckReadable(d Database) (version int, err error) {
	if version, err = s.Version(d); err != nil {
		return 0, err
	}
	exist, err := s.hasEvents(d)
	if err == nil && !exist {
		err = storerows.ErrNoTables
	}
	return version, err
}

// Migrate makes the versions that are missing, and notes them. Version 1 takes over a table of events that exists.
func (s *Schema) Migrate(d Database) error {
	version, err := s.Version(d)
	if err == nil {
		version, err = s.Complete(version, d)
	}
	for ; err == nil && version < Newest; version++ {
		err = InOrder(
			func() error { return d.Before(version + 1) },
			func() error { return s.make(version+1, d) },
			func() error { return s.note(version+1, d) },
		)
	}
	return err
}

func (s *Schema) note(version int, d Database) error {
	table := s.Prefix + "watchdog_schema"
	return InOrder(
		func() error { return d.Run("CREATE TABLE IF NOT EXISTS " + table + " (version integer PRIMARY KEY)") },
		func() error { return d.Add("watchdog_schema", "oldest_reader", "integer") },
		func() error {
			return d.Run(fmt.Sprintf(`INSERT INTO %s AS v (version, oldest_reader) VALUES (%d, %d)
			ON CONFLICT (version) DO UPDATE SET oldest_reader = coalesce(v.oldest_reader, excluded.oldest_reader)`,
				table, version, min(version, OldestReader)))
		},
	)
}

// make makes the tables of a version, the columns that it adds, and its indexes.
func (s *Schema) make(version int, d Database) error {
	made := map[string]bool{}
	for _, p := range s.Parts {
		if p.Version != version || len(p.Columns) == 0 || made[p.Table] {
			continue
		}
		made[p.Table] = true
		if err := d.Run(s.definition(version, p.Table)); err != nil {
			return fmt.Errorf("create %s: %w", p.Table, err)
		}
	}
	for _, p := range s.Parts {
		for _, c := range p.Added {
			if p.Version != version {
				continue
			}
			if err := d.Add(p.Table, c.Name, s.Types.Replace(c.Is)); err != nil {
				return fmt.Errorf("add a column to %s: %w", p.Table, err)
			}
		}
	}
	return s.makeIndexes(version, d)
}

// indexesOfBoth are those of both stores. Who deletes a window of watchdog_spend finds its slices by their index.
//
// Rejected: a unique index of the events in the outbox. Rows of earlier versions may name one twice, for example after
// its event was deleted and stored again, and such a version could then not store an end.
var indexesOfBoth = map[int][]Index{
	4: {{"watchdog_slices_window", "watchdog_slices", "scope, window_name"}},
	5: {{"watchdog_outbox_event", "watchdog_outbox", "event_id"}},
}

func (s *Schema) makeIndexes(version int, d Database) error {
	indexes := slices.Concat(indexesOfBoth[version], s.Indexes[version])
	if version == 1 {
		existing, err := d.Indexes()
		if err != nil {
			return err
		}
		for _, i := range storerows.MissingIndexes(existing) {
			indexes = append(indexes, Index{i.Name, "events", `"` + strings.Join(i.Columns, `", "`) + `"`})
		}
	}
	var statements []string
	for _, i := range indexes {
		statement := fmt.Sprintf(s.Index, i[0], i[1], i[2])
		if i[3] != "" {
			statement += " WHERE " + i[3]
		}
		statements = append(statements, statement)
	}
	for _, statement := range append(statements, s.Others[version]...) {
		if err := d.Run(statement); err != nil {
			return fmt.Errorf("make the indexes of version %d: %w", version, err)
		}
	}
	return nil
}

// definition returns the statement that makes a table, of all parts.
func (s *Schema) definition(version int, table string) string {
	var lines []string
	var keys []string
	for _, p := range s.Parts {
		if p.Version != version || p.Table != table {
			continue
		}
		for _, c := range p.Columns {
			lines = append(lines, c.Name+" "+c.Is)
		}
		if p.Key != "" {
			keys = append(keys, p.Key)
		}
	}
	lines = append(lines, keys...)
	return s.Types.Replace("CREATE TABLE IF NOT EXISTS " + s.Prefix + table + " (\n\t" + strings.Join(lines, ",\n\t") +
		"\n)" + s.Options[table])
}

// Complete returns the newest version of which all tables, columns and triggers exist, the given one at most. It fails
// if a table that exists is not ours.
func (s *Schema) Complete(version int, d Database) (int, error) {
	exists, err := s.hasEvents(d)
	if err != nil {
		return 0, err
	}
	if !exists {
		version = 0
	}
	for _, p := range s.Parts {
		if p.Version == 1 {
			continue
		}
		exist, err := d.Names(p.Table)
		if err != nil {
			return 0, err
		}
		if lacks := without(p.Columns, exist); len(exist) > 0 && len(lacks) > 0 {
			return 0, fmt.Errorf("%w (%s %s)", s.Foreign, p.Table, s.Lacking(lacks))
		}
		if len(exist) == 0 || len(without(p.Added, exist)) > 0 {
			version = min(version, p.Version-1)
		}
	}
	exist, err := d.Triggers()
	for name, of := range s.Triggers {
		if !slices.Contains(exist, name) {
			version = min(version, of-1)
		}
	}
	return version, err
}

// without returns the names of the columns that do not exist.
func without(columns []Column, exist []string) (names []string) {
	for _, c := range columns {
		if !slices.Contains(exist, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// InOrder runs the steps up to the first that fails, and returns its error.
func InOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
