// Package storeflow is what store/sqlite and store/postgres do alike with sessions and events: their schema and
// errors, what a page of sessions is made of, what a selection keeps.
//
// It has no driver, and no statements but those that make tables: a store supplies them, by small interfaces.
package storeflow
