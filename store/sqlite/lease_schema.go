package sqlite

// The conditions of the partial indexes. A query must repeat a condition word for word to use its index. An unreadable
// row is never stalled.
const (
	isLeased   = `status = 'active' AND ` + inLease
	isReadable = `created IS NOT NULL AND silent IS NOT NULL AND threshold >= 0`
	isQuiet    = `quiet_since IS NOT NULL AND ` + isLeased + ` AND ` + isReadable
	isQuietDue = `quiet_due IS NOT NULL AND ` + isLeased + ` AND ` + isReadable
	isLive     = `status = 'active'`
	hasParent  = `parent <> ''`
)

var leaseIndexes = []string{
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_lease ON watchdog_sessions (lease, run_id) WHERE ` + isLeased,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_quiet
		ON watchdog_sessions (lease, quiet_since, run_id, created) WHERE ` + isQuiet,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_quiet_due
		ON watchdog_sessions (lease, quiet_due, run_id, created) WHERE ` + isQuietDue,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_created ON watchdog_sessions (created, run_id)`,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_live ON watchdog_sessions (created, run_id) WHERE ` + isLive,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_parent
		ON watchdog_sessions (parent, created, run_id) WHERE ` + hasParent,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_host ON watchdog_sessions (host, created, run_id)`,
}

// refuseDelete has every program fail that deletes a lease which sessions name: nobody would observe the lease any
// more, and if its process is dead the sessions would stay active for ever. SQLite would check a foreign key only for
// programs that ask for it. The store deletes the leases alone that no session names.
const refuseDelete = `
	CREATE TRIGGER IF NOT EXISTS main.watchdog_leases_named BEFORE DELETE ON watchdog_leases
	WHEN EXISTS (SELECT 1 FROM watchdog_sessions WHERE ` + isLeased + ` AND lease = old.id)
	BEGIN
		SELECT RAISE(ABORT, 'active sessions name this lease: a sweeper finds out whether its process is dead');
	END`
