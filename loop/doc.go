// Package loop says when an agent repeats itself: it does the same and gets the same. Give a [Detector] each turn of
// calls of tools when these have come back, or all turns of a run to [Check]:
//
//	var d loop.Detector // ready as it is
//	...
//	switch v := d.Step(loop.Step{Tool: "grep", Input: args, Outcome: result, Gap: since}); v.Advice {
//	case loop.Ask:
//		tell(agent, v.String())
//		d.Delivered()
//	case loop.End:
//		return errLoop
//	}
//
// # What is the same
//
// Inputs are compared as JSON by its values, or else as text; file_0 and file_1 are progress. Beside a command or a
// query, fields such as its description, which a model words anew each time, are left out. In outcomes the fields and
// lines of [Config].Volatile and of known agents are left out, and times, durations, UUIDs, addresses, temporary
// paths and IDs of processes are not looked at; of failures, no word that has a digit is. The parallel calls of a
// turn are one unordered step. What a model writes is no step.
//
// # The rules
//
//   - [Tail]: three rounds of the same turns, one right after the other, of one to eight turns each.
//   - [Pair]: the same input with the same outcome in 4 of 32 turns, whatever is between. A new change that succeeds
//     starts the count again, and so does another outcome of the input.
//   - [Redo]: the same change five times in a row, with an input of 120 bytes or more, whatever comes back.
//   - [Futile]: 8 turns of 32 in which searches of one tool find nothing, or the same, in ever other words; reads of
//     one thing get the same text at whatever place; or calls fail with one first line.
//   - [Streak]: 12 turns in a row in which all fails. It ends nothing.
//   - [Poll]: 20 polls that get the same. It ends nothing, see [Config].Waits.
//
// All ask first. Once the host has called [Detector.Delivered], two more rounds of the same end the run: five turns of
// a Redo, sixteen of what is Futile. Other words are not other things: whoever looks up twenty names that are not on a
// list differs in one word from the search before, and is not futile.
//
// # Thinking and polling
//
// Waits, drives and retries are left out wherever they are, and are never New. Without a [Class] the detector guesses,
// and errs on the side of letting a run go on: a call that takes, with the time the model thinks, 5 seconds or more
// ends nothing; after 30 seconds, or waits of 15, or if its outcome says that something is under way or busy, it is a
// poll. A look is one after a minute. A look at how things stand, such as git status or a list of tasks, ends nothing,
// and does not count where anything new came between. Where a new call of no class succeeds, a Pair counts anew for
// the end. Inputs that differ may be a list that has an end, so that Futile ends only what reads on in one place, was
// refused, or has no such tool. A state of other than a few final words, and done: false, say that something is under
// way, in any language. Declare classes where you can.
//
// # Across restarts and layers
//
// [Detector.MarshalBinary] returns all that is remembered, in less than 8 KiB: digests and counts, never text. A digest
// of something short can be found again by trying. Agents that work at the same time want a detector each. A step of
// class [Person] begins anew.
//
// # What it does not do
//
// The package has no clock and no I/O, and starts and ends nothing. It does not know whether different calls help: an
// agent that makes a new useless edit each time is stopped by a budget.
package loop
