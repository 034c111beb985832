// Package storerows is what store/sqlite and store/postgres share: their errors, the check of an events table that a
// host already has, the order and the pages of stalled sessions, the column of an expired lease, and the pauses of
// starts.
//
// It contains no SQL and no driver: each store writes its own statements.
package storerows
