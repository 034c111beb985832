// Package state stores what a session must remember between two processes, in one directory:
//
//	session.json                a link to the file of the last session
//	events.db                   the events of all sessions
//	sessions/ID/session.json    one session
//	sessions/ID/PHASE.log       the output of a phase's command
//	sessions/ID/lock            locked by the process that runs the session
//
// Save replaces a session.json as a whole and syncs it first: a process that is killed at any point leaves the old file
// or the new one. Only the user can read the directories and files.
//
// The package does not know the rules of a session: its caller decides which phase comes next and when a session stops.
package state
