// Package bound makes one call that may ignore its context: a tick, a tool, a request. [Do] ends the call's context at
// a soft limit. If the call has not returned a grace later, the hard limit, the caller gets its answer without it: the
// call is abandoned, counted and listed, and nothing that it still brings reaches anybody.
//
// A call needs no run. Work says with [Note] what it is doing, so that whoever reads of its end knows the last tool.
//
// Inside the context of a [watchdog.Watchdog] a call gets no more time than the run has left.
//
// It cannot stop a goroutine by force, and retries nothing.
package bound
