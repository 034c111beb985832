// Package idle ends work that goes silent: a context that ends when nothing came for too long. It is the guard for a
// stream, a tool or a connection that needs no run, no record and no limit but this one.
//
//	ctx, timer := idle.WithLimit(ctx, time.Minute)
//	defer timer.Close()
//	for event := range events {
//		timer.Alive()
//		...
//	}
//
// The cause of a context that ended for its silence is a [*watchdog.Stop], as of every other guard, with the code
// [watchdog.IdleExceeded] and without a run.
//
// # Signs of life
//
// [Timer.Alive] is one. [Recv], [NewReader], [NewWriter] and [NewBody] make one of each value and chunk that arrives,
// as package watchdoghttp does of HTTP exchanges and package stall of a command's output in the timer's context. A sign
// counts for everything around it, too: the timers in whose contexts this one was made, and the run, see
// [watchdog.FromContext]. (A run that begins inside a timer's context counts its own signs alone.)
//
// # Silence
//
// Silence is exceeded when it lasted longer than the limit: at the limit itself the work goes on, one nanosecond later
// it has ended. It is counted by the monotonic clock, which on Linux and macOS leaves out what the machine slept, so
// that a lid that is closed ends nothing. There is no interval at which it is looked at: while signs come the timer is
// not touched, and once they stop it fires when the limit is exceeded. If it fires late, this process did not run, and
// that is nobody's silence: what waits has a grace in which to be read, as [watchdog.Budget].Idle says.
//
// While a tool runs another limit can count, see [Timer.Widen], and [Timer.Begin] for calls whose results come as
// messages. A limit of 0 or less is off everywhere in the package, as [watchdog.NoLimit] is, and nobody is told.
//
// The package records nothing, gives no directives, and cannot stop a goroutine by force. For a wall clock, a record,
// directives or a resume use a [watchdog.Watchdog]; for a call that ignores its context package bound.
package idle
