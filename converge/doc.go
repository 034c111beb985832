// Package converge says when a loop gets nowhere: it compares the fingerprints that its iterations end with, and the same ones again and again
// mean that the next attempt has to be a different one, and in the end that there is none.
//
// # Observing
//
// A [Tracker] is told the fingerprints after each iteration, such as those of a command that stalled, and answers with a [Decision]: go on, go on
// in the next [Stage], or give up.
//
//	t, err := converge.New(converge.Config{})
//	...
//	decision, err := t.Observe(result.Fingerprints)
//	if decision.Action == converge.GiveUp {
//		return errStuck
//	}
//	prompt = task + decision.Text()
//
// # The rules
//
//   - The order and the repetition of fingerprints do not matter: two iterations are the same if their sets are.
//   - The same set as often in a row as the stage says leaves the stage, and the count begins again in the next. Past the last the tracker gives up,
//     and answers so until [Tracker.Reset].
//   - A set that differs in any element begins again, in the first stage: something moved, and the instructions for a loop that is stuck do not fit
//     one that is not.
//   - An empty set is an iteration that ended well: it puts everything back to the start.
//
// # Back and forth
//
// A loop that breaks one thing by mending another sees A, B, A, B, and never the same set twice in a row. [Config].Memory has it found: with 2 or more
// a set counts as the same if it is among the last two or more. A tracker that gives up on such a loop says so in [Decision.StopReason].
//
// # Across restarts
//
// [Tracker.State] is what a host stores beside its own; [Restore] goes on from it. A tracker restored in the middle decides as one that never stopped.
//
// # What it does not do
//
// It has no clock and no I/O, starts and ends nothing, and knows nothing about why an iteration failed: fingerprints are compared, not understood. It
// does not limit how many different failures a loop may run through; that is a budget's to say.
package converge
