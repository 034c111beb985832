// Package storeflow is what store/sqlite and store/postgres do alike with sessions, slices and events: what a page of
// sessions is made of, how a slice is charged, what a selection keeps.
//
// It has no SQL and no driver. What it needs of a database is a small interface, and each store supplies the statements.
package storeflow
