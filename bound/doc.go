// Package bound makes one call that may ignore its context: a tick, a tool, a request. [Do] ends the call's context at
// a soft limit. If the call has not returned a grace later, the hard limit, the caller gets its answer without it: the
// call is abandoned, counted and listed, and nothing that it still brings reaches anybody.
//
// A call needs no run. Work says with [Note] what it is doing, so that whoever reads of its end knows the last tool.
//
// Inside the context of a [watchdog.Watchdog] a call gets no more time than the run has left. If it overran or was
// abandoned, the run has that on record as a [event.Overrun]: it is written in the background, and the run's
// Close waits for it. (A run in poll-only mode writes it at its next poll or Close.) It holds the call's key and its
// last note, and nothing of what the call returned or panicked with.
//
// It cannot stop a goroutine by force, and retries nothing.
package bound
