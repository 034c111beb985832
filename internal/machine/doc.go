// Package machine decides about a session and all its layers: what their limits, signals, holds and ladders come to,
// what ends them, and what has to be recorded of that.
//
// A [Tree] is a session with its layers, a [Node] is one of these runs. Whatever happens to them is an [Input]: what
// the host called, what the store answered, that an instant came, that the parent ended, what Busy said. [Tree.Step]
// takes one at an instant, changes the state, and returns the effects: what to end, to record, to ask and to tell.
//
// The package has no clock, no lock, no goroutine, no context and no store, and calls nothing of the host's. Whoever
// drives a tree holds a lock for it. Two things of a run are written without that, see [Port]: its signs of life, and
// until when a poll has nothing to look for. What is exceeded when is for package verdict, what the events of a run
// come to for package fold, what is charged for package ledger.
package machine
