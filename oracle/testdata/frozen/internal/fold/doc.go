// Package fold says what the events of a run come to: which window the run is in, what ended it or gave it more time,
// what was asked of the host in it, and how long its wall clock stood still. A process that attaches to a run, a trip
// that asks the store before it ends one, and whoever tells the story of a run all read the events here.
//
// [Of] folds events into a [History], which has a [Window] for each stretch of time that an event tells of. What is
// known of a window does not depend on the order in which its events are given, because the clocks of the hosts that
// wrote them need not agree.
//
// The package has no clock, no store and no goroutine, knows no stop codes, and decides nothing about a running run.
package fold
