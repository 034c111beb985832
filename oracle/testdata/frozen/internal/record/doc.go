// Package record is the bytes of the events: their payloads, times and derived IDs. Every guard writes them with it, so
// that a session's event is the same whoever wrote it. A change of a byte here is a change of the contract, which
// golden files hold.
//
// It does not know what an event is for, and stores nothing.
package record
