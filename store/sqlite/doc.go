// Package sqlite is the embedded [event.Store] and [session.Store]: one SQLite file, a driver in pure Go, no
// server.
//
// # Opening
//
// [Open] takes the path of a file and creates what is missing in it:
//
//	store, err := sqlite.Open(ctx, "state/events.db")
//	if err != nil { return err }
//	defer store.Close()
//
// [OpenReadOnly] takes a file that may be read only, and changes nothing.
//
// [New] takes the host's own *sql.DB, with any SQLite driver, and never closes it. The store takes a connection for
// each commit and each read and gives it back, so a pool of one connection is enough. A host that holds this one
// connection in a transaction of its own must not append until the transaction has ended.
//
// # The table
//
// Events are rows of a table named events:
//
//	id VARCHAR(36) PRIMARY KEY, aggregate_type VARCHAR(100), aggregate_id VARCHAR(255), event_type VARCHAR(200),
//	payload JSON, timestamp TEXT, consensus_id VARCHAR(36) NULL
//
// with indexes on (aggregate_type, aggregate_id, timestamp) and (event_type). A timestamp is UTC text of the form
// "2006-01-02 15:04:05.000000". A payload is JSON text whose last key is "event_version":1. The store adds this key
// when it writes and removes it when it reads; a payload with an event_version of its own keeps that one.
//
// If the database already has a table named events, the store uses it in place. It ignores columns beyond these, and
// reads rows that other programs wrote, with timestamps in any of the common forms. [ErrForeignTable] names the columns
// that make a table unusable.
//
// Two more indexes hold few rows: watchdog_events_parent the events that name a parent, for [Store.Layers], and
// watchdog_events_foreign_time those whose timestamps have another form, for [Store.Select]. A host's table gets them,
// too. Without an index a call reads more rows, and returns the same.
//
// The version of the schema is in a table named watchdog_schema, with the oldest version that can use it: from that one
// on, a version also uses a database that a newer one has migrated.
//
// # Sessions
//
// Sessions are rows of a table named watchdog_sessions, because many hosts have a table named sessions:
//
//	run_id VARCHAR(255) PRIMARY KEY, parent VARCHAR(255), status VARCHAR(20), created_at TEXT, last_event_at TEXT NULL,
//	threshold INTEGER, started_at TEXT, host TEXT, attempt INTEGER, resumes INTEGER, reason TEXT, ended INTEGER NULL
//
// and these, each of which may be NULL:
//
//	lease TEXT, activity INTEGER, quiet_since INTEGER, quiet_due INTEGER, allowance INTEGER, state TEXT, claim TEXT,
//	claimed_until TEXT, warned_at TEXT, warned_lease TEXT, warned_beat INTEGER, warned_last_event TEXT,
//	stop_failed INTEGER, expired_lease TEXT, lost INTEGER, start_key TEXT, start_tries INTEGER, start_due INTEGER
//
// Times have the form of an event's timestamp; a row with a time in another form is unreadable. The threshold is in
// nanoseconds, and 0 means the sweeper's. The query for stalled sessions uses generated columns and partial indexes, so
// it does not read the active rows. The clock is the machine's, read through SQLite in milliseconds; ages count to the
// microsecond. The column ended is when the run was noted as ended, in microseconds since 1970. SQLite cannot notify
// other processes, so a keeper learns of a cancel by polling: see [Store.Ended].
//
// Leases are rows of a table named watchdog_leases, which the column lease names. Signs of life of a busy run change no
// index. A trigger has every program fail that deletes a lease which active sessions name: nobody would find out any
// more whether their process is dead.
//
// SQLite locks no single row. [Store.Attach], [Store.Claim], [Store.Warn], [Store.Cancel] and [Store.ExpireLease] wrap
// [session.ErrLocked] if another program keeps the write lock for too long; other calls only say so.
//
// # Durable, and still fast
//
// When Append returns nil the events are on disk. A file that [Open] opened is in WAL mode with synchronous=FULL. On a
// host's connection the store raises synchronous during its own transaction. Calls that arrive while a transaction is
// being written share the next one, so many writers pay for one sync together; if one caller's write fails, the others
// do not. Several processes may use one file; each waits for the write lock, four seconds at most.
//
// SQLite goes on writing to a file that somebody deletes, moves or replaces, and what it commits is in no file then. So
// the store looks where the path leads after a commit, once a second at most, and when it is closed: [ErrFileGone]. A
// store that only reads does not look, and nobody notices that the log (-wal) alone was deleted.
//
// [Store.Transact] reads, decides and appends in such a shared transaction.
//
// Between calls a store runs no goroutine of its own. A store from [Open] has the one goroutine that every sql.DB has.
//
// Package sqlite does not delete or change events, does not take a backup, and does not open a database in memory: use
// [event.Memory] for that.
package sqlite
