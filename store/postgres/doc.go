// Package postgres is the [event.Store] and [session.Store] for several hosts that share one PostgreSQL
// database, version 13 or later.
//
// # Opening
//
// [Open] takes a connection string and creates what is missing in the database:
//
//	store, err := postgres.Open(ctx, "postgres://app@db.internal/agents", postgres.Config{})
//	if err != nil { return err }
//	defer store.Close()
//
// The store has a pool of its own with pgx's default size: four connections, or one for each processor if there are
// more. pool_max_conns in the connection string changes the size. [New] takes the host's own pool and never closes
// it. Each call takes a connection and gives it back. [Store.Listen] uses one more connection, outside the pool.
//
// With [Config].ReadOnly the store reads and changes nothing, also from a standby, and for a role that may only SELECT.
//
// No error contains a password. If the connection string has several hosts, an error says which one it is about.
//
// # The tables
//
// All tables are in one schema: [Config].Schema, or the first schema of the connection's search_path, which must not be
// pg_temp. Events are rows of a table named events:
//
//	id varchar(36) PRIMARY KEY, aggregate_type varchar(100), aggregate_id varchar(255), event_type varchar(200),
//	payload json, timestamp timestamptz, consensus_id varchar(36) NULL
//
// with indexes on (aggregate_type, aggregate_id, timestamp), on (event_type), and on the parent that a payload names,
// which [Store.Layers] uses. If the schema already has a table named events, the store uses it in place and ignores
// columns beyond these; [ErrForeignTable] names the columns that make a table unusable. The store creates the indexes
// if such a table lacks them, and writers wait meanwhile.
//
// All functions, operators and types of the statements are those of pg_catalog, whatever the search_path is.
//
// Sessions are rows of watchdog_sessions, the leases of their processes rows of watchdog_leases. The version of the
// schema is in watchdog_schema. A program can use a database of a newer version if oldest_reader there is at most its
// own version.
//
// A role that may not create tables can use a schema that another role has opened before. It needs USAGE on the schema,
// SELECT and INSERT on events, SELECT, INSERT and UPDATE on watchdog_sessions, SELECT, INSERT, UPDATE and DELETE on
// watchdog_leases, and SELECT on watchdog_schema.
//
// # Locks
//
// No call waits for a lock for longer than [session.LockWait], also not for a table that another transaction has
// locked, for instance to change it. The error then says lock_timeout. Other statements in the host's pool keep their
// own lock_timeout. Only Transact waits for another Transact, for as long as its context allows.
//
// Activity is written without touching an index (a HOT update), into room that pages keep for it. The index entries and
// the dead rows of a fleet come from runs that begin, end, or become quiet.
//
// # Through a pooler
//
// The store works through a pooler in transaction mode, such as PgBouncer: every call is one transaction, and no state
// stays with a connection. The store prepares statements by name only if it is connected to the server itself, which it
// finds out when it opens, and if the pool's default_query_exec_mode is the default, cache_statement. Where it is not,
// a call takes three round trips, because the limit for locks needs a transaction around the statement. Only Listen
// needs a connection that stays: through such a pooler it returns [ErrNoNotifications], and a [session.Keeper] polls
// instead.
//
// Package postgres does not delete or change events. It fails over to another server only as a connection string with
// several hosts does. It does not retry a call whose connection broke, because only the caller knows how long the
// call may take. Package pgtest starts servers for tests.
package postgres
