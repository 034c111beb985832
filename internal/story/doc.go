// Package story tells what became of a run, from what is stored about it: what it was allowed, what it used, what was
// asked of it and when, what ended it, and how to go on. A command line and a page show the same story. [Of] tells it
// from events and a session's row, [OfArtifact] from the file that a stalled command leaves.
//
// It reads nothing by itself but layers, decides nothing, and does not escape what hosts noted: who shows a story does.
package story
