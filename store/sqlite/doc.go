// Package sqlite is the embedded [watchdog.EventStore] and [session.Store]: one SQLite file, a driver in pure Go, no server.
//
// # Opening
//
// [Open] takes the path of a file and creates what is missing in it:
//
//	store, err := sqlite.Open(ctx, "state/events.db")
//	if err != nil { return err }
//	defer store.Close()
//
// [New] takes the host's own *sql.DB, of whatever driver for SQLite, and never closes it. A connection is taken for
// each commit and each read and given back, so that a pool of one connection is enough; a host that holds that one
// connection in a transaction of its own must not append until it has ended.
//
// # The table
//
// Events are rows of a table named events:
//
//	id VARCHAR(36) PRIMARY KEY, aggregate_type VARCHAR(100), aggregate_id VARCHAR(255), event_type VARCHAR(200),
//	payload JSON, timestamp TEXT, consensus_id VARCHAR(36) NULL
//
// with indexes on (aggregate_type, aggregate_id, timestamp) and (event_type). A timestamp is UTC text of the form
// "2006-01-02 15:04:05.000000". A payload is JSON text whose last key is "event_version":1, added when it is written and
// taken away when it is read; a payload that has an event_version of its own keeps that one. A table of that name
// that is there already is used in place: columns it has beyond these are left alone, and rows that other programs
// wrote are read, whatever of the common forms their timestamps have. [ErrForeignTable] says which columns stand in
// the way.
// The version of the schema is in a table named watchdog_schema.
//
// # Sessions
//
// Sessions are rows of a table named watchdog_sessions, for a host may well have a table named sessions:
//
//	run_id VARCHAR(255) PRIMARY KEY, parent VARCHAR(255), status VARCHAR(20), created_at TEXT, last_event_at TEXT NULL, threshold INTEGER,
//	started_at TEXT, host TEXT, attempt INTEGER, resumes INTEGER, reason TEXT, ended INTEGER NULL
//
// Times have the form of an event's timestamp and no other: a row in which one has not is unreadable. A threshold is in nanoseconds, 0 for the sweeper's. Generated columns and partial
// indexes lead to what is stalled without a look at what is active. The clock is the one of the machine, asked for through SQLite, and shows milliseconds; ages count to the microsecond. ended grows
// with each end, and is the mark of [Store.Ended]. Nobody can listen to SQLite: a cancel is told by polling.
//
// # Durable, and still fast
//
// When Append returns nil the events are on disk: a file that [Open] opened is in WAL mode with synchronous=FULL, and on
// a host's connection synchronous is raised for the length of our transaction. Calls that come while a transaction is
// being written share the next one, so that many writers pay for one sync together. One caller's failure stays its
// own. Several processes may use one file; each waits for the write lock, four seconds at most.
//
// Between calls a store runs no goroutine of its own. One that [Open] opened has the one that every sql.DB has.
//
// Package sqlite does not delete or change events, does not take a backup, and does not open a database in memory:
// for that there is [watchdog.Memory].
package sqlite
