package postgres

// awaitStandby writes to the server's log, so that the commit waits for a synchronous standby, which then has all that
// was committed before as well. The commit of a write that finds its events stored waits for nothing, and an earlier
// write can have stored them and given up waiting for the standby: if that is promoted, they are lost. It needs no
// right, and whoever decodes the log skips it unless asked for messages.
//
// Rejected: to lock the stored rows, which needs UPDATE on the table.
const awaitStandby = `SELECT pg_catalog.pg_logical_emit_message(true, 'watchdog', '')`
