package storeflow

import (
	"fmt"
	"slices"
	"strings"
)

// Newest is the version of the schema, and OldestReader that of the oldest program that can use it.
const (
	Newest       = 8
	OldestReader = 8
)

// first is the version of the first release. Who tried the library before it may have a database of one below.
const first = 8

// A Schema is the tables of a store. Each statement allows being run again, because a table that the host has dropped
// is created again.
type Schema struct {
	// Prefix is before the name of a table.
	Prefix string
	// Types is what stands for a word in braces in the definition of a column.
	Types *strings.Replacer
	// Columns are those that only this store has, and Options follow the columns, by the name of the table.
	Columns map[string][]Column
	Options map[string]string
	// Index is the form of the statement that makes an index: of its name, its table and its columns.
	Index   string
	Indexes []Index
	// Others are statements that follow.
	Others []string
	// Foreign is wrapped by the error of a table that is not ours.
	Foreign error
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
	// Events reports whether there is a table of events, and describes its columns.
	Events() (exists bool, columns []EventColumn, err error)
	Indexes() ([]EventIndex, error) // of that table
}

// A Table is one of both stores. One that exists without a column is somebody else's.
type Table struct {
	Name    string
	Columns []Column
	Key     string // after the columns
}

// A Column is the name of a column and its definition.
type Column struct{ Name, Is string }

// Tables are those of both stores, in the order in which they are made.
//
// A threshold is in nanoseconds, and 0 means the sweeper's. Only a row in a lease and without one has an allowance.
//
// Activity is in nanoseconds of the lease's clock, NULL for a run that has not signalled. It is in no index. A row that
// is quiet has one of two columns: quiet_since, its activity, if it has neither a threshold of its own nor an
// allowance, or else quiet_due, the sum of its activity and that. Both are NULL for a session that is not quiet: signs
// of life of a busy session change no index.
//
// A row that left a lease which expired says in expired_lease how often in a row the lease was found not renewed, when
// it was renewed last, in microseconds since 1970, and its ID. It is lost if the process was seen to die.
//
// The columns of a warning beside its time are what the session was like when it was warned, or its agents were
// stopped: after a sign of life warned_at and, of an active session, stop_failed are void.
var Tables = []Table{
	{Name: "events", Columns: []Column{
		{"id", "VARCHAR(36) NOT NULL PRIMARY KEY"},
		{"aggregate_type", "VARCHAR(100) NOT NULL"},
		{"aggregate_id", "VARCHAR(255) NOT NULL"},
		{"event_type", "VARCHAR(200) NOT NULL"},
		{"payload", "{payload} NOT NULL"},
		{`"timestamp"`, "{time} NOT NULL"},
		{"consensus_id", "VARCHAR(36)"},
	}},
	// Each look at a lease counts looks up, which is how an observer knows that the database takes writes. Promise, clock,
	// vouched and covered are in nanoseconds, the last three by the clock of the lease's process. Covered is as vouched,
	// without the rows that cannot be written now; behind names these.
	{Name: "watchdog_leases", Columns: []Column{
		{"id", "VARCHAR(255){bytes} NOT NULL PRIMARY KEY"},
		{"host", "{text} NOT NULL DEFAULT ''"},
		{"promise", "{integer} NOT NULL"},
		{"beat", "{integer} NOT NULL"},
		{"clock", "{integer} NOT NULL"},
		{"vouched", "{integer} NOT NULL"},
		{"covered", "{integer} NOT NULL DEFAULT 0"},
		{"behind", "{JSON}"},
		{"renewed_at", "{time} NOT NULL"},
		{"looks", "{integer} NOT NULL DEFAULT 0"},
		{"expired", "{time}"},
	}},
	{Name: "watchdog_sessions", Columns: []Column{
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
		{"lease", "{lease}"},
		{"activity", "{integer}"},
		{"quiet_since", "{integer}"},
		{"quiet_due", "{integer}"},
		{"allowance", "{integer}"},
		{"state", "{JSON}"},
		{"claim", "{text}"},
		{"claimed_until", "{time}"},
		{"warned_at", "{time}"},
		{"warned_lease", "{text}"},
		{"warned_beat", "{integer}"}, // the activity
		{"warned_last_event", "{time}"},
		{"stop_failed", "{flag}"},
		{"expired_lease", "{text}"},
		{"lost", "{flag}"},
		// The key of a start that is wanted, how often it was claimed, and when it can be claimed again.
		{"start_key", "{text}"},
		{"start_tries", "{integer}"},
		{"start_due", "{due}"},
	}},
	// The attempts whose rows were in a lease when another process than that of the lease ended them, or took them over. A
	// row is written in that transaction, deleted when the lease's process was told of it, and goes with the lease.
	//
	// Rejected: to ask watchdog_sessions what ended since a transaction. Every keeper read what the whole fleet had ended,
	// and as long as any transaction of the server stayed open the same again and again.
	{Name: "watchdog_lease_ends", Columns: []Column{
		{"lease", "{lease}{cascade} NOT NULL"},
		{"run_id", "VARCHAR(255){bytes} NOT NULL"},
		{"attempt", "{integer} NOT NULL"},
	}, Key: "PRIMARY KEY (lease, run_id, attempt)"},
}

// Migrate makes what is missing, and notes the version. A table of events that exists is taken over.
func (s *Schema) Migrate(d Database) error {
	version, err := s.version(d)
	if err != nil {
		return err
	}
	complete, err := s.Complete(d)
	if err != nil || complete && version >= Newest {
		return err
	}
	// A later version of the schema adds its columns here, to the tables of the version that was found.
	return InOrder(
		func() error { return s.make(d) },
		func() error { return s.makeIndexes(d) },
		func() error { return s.note(d) },
	)
}

// version returns the version of the schema, 0 if there is none of ours. It fails if the version is newer than this
// one, and does not say that this one can use it.
func (s *Schema) version(d Database) (version int, err error) {
	names, err := d.Names("watchdog_schema")
	if err != nil || len(names) == 0 {
		return 0, err
	}
	oldest := 0
	err = d.Value(fmt.Sprintf(`SELECT coalesce((SELECT version FROM %[1]s ORDER BY version DESC LIMIT 1), 0),
		coalesce((SELECT oldest_reader FROM %[1]s ORDER BY version DESC LIMIT 1), 0)`, s.Prefix+"watchdog_schema"),
		nil, &version, &oldest)
	if err != nil {
		return 0, err
	}
	switch {
	case version > 0 && version < first:
		err = fmt.Errorf("%w (its version is %d)", ErrUnreleasedSchema, version)
	case version > Newest && oldest > Newest:
		err = fmt.Errorf("%w (its version is %d, the newest known here %d)", ErrNewerSchema, version, Newest)
	}
	return version, err
}

// CheckReadable fails if this program cannot use the schema, or there are no events in it.
func (s *Schema) CheckReadable(d Database) error {
	if _, err := s.version(d); err != nil {
		return err
	}
	exist, err := s.hasEvents(d)
	if err == nil && !exist {
		err = ErrNoTables
	}
	return err
}

// Complete reports whether all tables exist. It fails if one that exists is not ours.
func (s *Schema) Complete(d Database) (bool, error) {
	complete, err := s.hasEvents(d)
	if err != nil {
		return false, err
	}
	for _, t := range Tables[1:] {
		exist, err := d.Names(t.Name)
		if err != nil {
			return false, err
		}
		lacks := slices.DeleteFunc(namesOf(s.columnsOf(t)), func(name string) bool { return slices.Contains(exist, name) })
		if len(exist) > 0 && len(lacks) > 0 {
			return false, fmt.Errorf("%w (%s lacks %s)", s.Foreign, t.Name, strings.Join(lacks, ", "))
		}
		complete = complete && len(exist) > 0
	}
	return complete, nil
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
	if problems := TableProblems(columns, indexes); len(problems) > 0 {
		return false, fmt.Errorf("%w (events: %s)", s.Foreign, strings.Join(problems, "; "))
	}
	return true, nil
}

func (s *Schema) columnsOf(t Table) []Column { return slices.Concat(t.Columns, s.Columns[t.Name]) }

func namesOf(columns []Column) (names []string) {
	for _, c := range columns {
		names = append(names, c.Name)
	}
	return names
}

func (s *Schema) make(d Database) error {
	for _, t := range Tables {
		var lines []string
		for _, c := range s.columnsOf(t) {
			lines = append(lines, c.Name+" "+c.Is)
		}
		if t.Key != "" {
			lines = append(lines, t.Key)
		}
		statement := s.Types.Replace("CREATE TABLE IF NOT EXISTS " + s.Prefix + t.Name +
			" (\n\t" + strings.Join(lines, ",\n\t") + "\n)" + s.Options[t.Name])
		if err := d.Run(statement); err != nil {
			return fmt.Errorf("create %s: %w", t.Name, err)
		}
	}
	return nil
}

func (s *Schema) makeIndexes(d Database) error {
	existing, err := d.Indexes()
	if err != nil {
		return err
	}
	all := slices.Clone(s.Indexes)
	for _, i := range MissingIndexes(existing) {
		all = append(all, Index{i.Name, "events", `"` + strings.Join(i.Columns, `", "`) + `"`})
	}
	var statements []string
	for _, i := range all {
		statement := fmt.Sprintf(s.Index, i[0], i[1], i[2])
		if i[3] != "" {
			statement += " WHERE " + i[3]
		}
		statements = append(statements, statement)
	}
	for _, statement := range append(statements, s.Others...) {
		if err := d.Run(statement); err != nil {
			return fmt.Errorf("make the indexes: %w", err)
		}
	}
	return nil
}

func (s *Schema) note(d Database) error {
	table := s.Prefix + "watchdog_schema"
	return InOrder(
		func() error {
			return d.Run("CREATE TABLE IF NOT EXISTS " + table +
				" (version integer PRIMARY KEY, oldest_reader integer NOT NULL)")
		},
		func() error {
			return d.Run(fmt.Sprintf("INSERT INTO %s (version, oldest_reader) VALUES (%d, %d) ON CONFLICT (version) DO NOTHING",
				table, Newest, OldestReader))
		},
	)
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
