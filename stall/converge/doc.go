// Package converge says when a loop makes no progress. It compares the fingerprints that the iterations end with. If
// they stay the same, the next attempt has to be different, and after some attempts the loop should end.
//
// # Observing
//
// Give a [Tracker] the fingerprints after each iteration, such as those of a command that stalled. It answers with a
// [Decision]: continue, continue in the next [Stage], or give up.
//
//	t, err := converge.New(converge.Config{})
//	...
//	decision, err := t.Observe(result.Fingerprints()) // none if the command ended without a trip
//	if decision.Advice == converge.GiveUp {
//		return errStuck
//	}
//	prompt = task + decision.Text()
//
// # The rules
//
//   - Order and duplicates do not matter: two iterations are the same if their sets of fingerprints are.
//   - If the same set comes as often in a row as the stage says, the loop leaves the stage, and the next stage counts
//     from zero. After the last stage the tracker gives up, and it answers so until [Tracker.Reset].
//   - A set that differs in any element starts again in the first stage: something changed, and the instructions for a
//     stuck loop do not fit any more.
//   - An empty set is an iteration that ended well. It resets everything.
//
// # Back and forth
//
// A loop that repairs one thing by breaking another sees A, B, A, B, and never the same set twice in a row.
// [Config].Memory finds such a loop: with 2 or more, a set counts as the same if it is among that many last sets.
// When a tracker gives up on such a loop, [Decision.StopReason] says so.
//
// # Across restarts
//
// A host stores [Tracker.State] with its own state, and [Restore] continues from it. A restored tracker decides as if
// it had never stopped.
//
// # What it does not do
//
// The package has no clock and no I/O, and starts and ends nothing. It does not know why an iteration failed: it
// compares fingerprints and does not interpret them. It does not limit how many different failures a loop may have; a
// budget does.
package converge
