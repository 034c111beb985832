// Package postgres is the [watchdog.EventStore] and [session.Store] for several hosts: one PostgreSQL database, version 13 or later, that all of them reach.
//
// # Opening
//
// [Open] takes a connection string and creates what is missing in the database:
//
//	store, err := postgres.Open(ctx, "postgres://app@db.internal/agents", postgres.Config{})
//	if err != nil { return err }
//	defer store.Close()
//
// It has a pool of its own, as large as pgx makes one: four connections, or one for each processor where there are more; pool_max_conns in the connection string changes it.
// [New] takes the host's own pool and never closes it. A connection is taken for each call and given back. [Store.Listen] has one more beside the pool.
//
// Passwords are in none of the errors.
//
// # The tables
//
// Everything is in one schema: [Config].Schema, or the first one of the connection's search_path. Events are rows of a table named events:
//
//	id varchar(36) PRIMARY KEY, aggregate_type varchar(100), aggregate_id varchar(255), event_type varchar(200),
//	payload json, timestamp timestamptz, consensus_id varchar(36) NULL
//
// with indexes on (aggregate_type, aggregate_id, timestamp) and (event_type). A table of that name that is there already is used in place, and columns it has beyond these
// are left alone; [ErrForeignTable] says which stand in the way. Where such a table lacks the indexes they are made, and writers wait meanwhile. Sessions are rows of
// watchdog_sessions; the version of the schema is in watchdog_schema.
//
// A role that may not create tables can use a schema that another one has opened before, if it was granted USAGE on it, SELECT and INSERT on events, SELECT, INSERT and UPDATE on
// watchdog_sessions, and SELECT on watchdog_schema.
//
// # Through a pooler
//
// Every write is one statement, and no state is left with a connection, so that a pooler in transaction mode, such as PgBouncer, can stand in between. Statements are prepared by name only where the
// connection is to the server itself, which is found out when the store is opened, and the pool's default_query_exec_mode is the usual cache_statement. Only Listen needs a connection
// that stays: through such a pooler it returns [ErrNotHeard], and a [session.Keeper] polls instead.
//
// Package postgres does not delete or change events, does not fail over from one server to another beyond what a connection string with several hosts does,
// and does not retry a call whose connection broke: the caller knows how long it may take. Package pgtest starts servers for tests.
package postgres
