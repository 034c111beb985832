// Package storeflow is what store/sqlite and store/postgres do alike with sessions, slices and events: their schema and
// errors, what a page of sessions is made of, how a slice is charged, what a selection keeps.
//
// It has no driver, and no statements but those that make tables: a store supplies them, by small interfaces.
package storeflow
