// Package state keeps what a session must remember between two processes, in one directory:
//
//	session.json                the session that ran last: a link to its file below
//	events.db                   the events of all sessions
//	sessions/ID/session.json    what is known of one session
//	sessions/ID/PHASE.log       what the command of a phase printed
//	sessions/ID/lock            held by the process that runs the session
//
// A session.json is replaced as a whole and is on the disk before the replacement counts, so that a process that is killed at any
// point leaves the old one or the new one. Directories and files are the user's alone.
//
// The package does not know the rules of a session: which phase comes next, and when one must stop, is decided by who uses it.
package state
