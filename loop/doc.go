// Package loop says when an agent repeats itself: it does the same and gets the same, again and again. It looks at
// calls of tools together with their outcomes, because a batch of edits, a list of pages and a poll look like a loop to
// whoever sees the calls alone.
//
// # Observing
//
// Give a [Detector] each turn when its calls have come back. The zero value has the defaults.
//
//	var d loop.Detector
//	...
//	switch v := d.Step(loop.Step{Tool: "grep", Input: args, Outcome: result, Class: loop.Look}); v.Advice {
//	case loop.Ask:
//		tell(agent, "You repeat yourself. Say what is missing, or try something else.")
//		d.Delivered()
//	case loop.End:
//		return errLoop
//	}
//
// # In a hook that can only stop
//
// [Check] is a function of all turns of a run, for a host whose hook gets these and answers whether the run stops.
// Where nobody can be asked, whatever is not Go ends the run: see the example of Check.
//
// # What is the same
//
//   - Inputs are compared as canonical JSON: without white space, with sorted keys, with numbers by their value, so
//     that 1, 1.0 and 1e0 are one. Strings are compared as they are: file_0 and file_1 are progress.
//   - In outcomes, these are blurred: durations with units, also in the name of a field such as elapsed_ms; RFC 3339
//     times; hexadecimal addresses; temporary paths. The fields of [Config].Volatile are left out.
//   - What is not JSON is compared byte by byte.
//   - The parallel calls of a turn are one unordered step. What a model writes is no step, a refused call is one.
//
// # The rules
//
//   - [Tail]: three rounds of the same turns, one right after the other, of one to eight turns each.
//   - [Pair]: the same input with the same outcome in 4 of 32 turns, whatever is between. A new change that succeeds
//     starts the count again, and so does another outcome of the input.
//   - [Futile]: 8 turns in which searches of one tool find nothing, or the same, in ever other words; reads of one
//     thing are behind its end, or get the same text, at whatever offset; changes fail with the same error, and other
//     calls do in ever other words; or a tool is called that there is not. A useful call of that kind starts again.
//
// All ask first. Once the host has called [Detector.Delivered], two more rounds of the same end the run; for
// Pair a round is the next time, for Futile 8 more turns, because who searches many places finds nothing in most of
// them.
//
// Other words are not other things. Whoever looks up twenty names, of which none is on a list, is not futile: what
// differs from the search before is one word, or words in one place that did not come before. A search counts if it
// has words of earlier ones in another place, has words more or less, or differs in nothing but case, punctuation and
// words of one or two letters: fooBar, foo_bar and FooBar are one word.
//
// # Classes
//
// A tool's [Class] says how much it means when a call repeats. Waits and drives are left out, wherever they are: a
// poll, a sleep, a key, a scroll is neither asked nor ended, and a loop around them is found. Retries ([Step].Retry)
// are left out, too. They count only toward no progress, by the limits of a watchdog: they are never New.
//
// Without a class the detector guesses, and errs on the side of letting a run go on: a call that got the same before,
// and came some seconds after the last step, may be a poll. The rule [Poll] asks about 20 of these in a row, and ends
// no run. A [Look] may be a poll only after a pause of a minute, or of five seconds if its outcome says that
// something is still under way; so may a call that failed in a way that does not pass by itself. A command that only
// asks whether something is there, such as pg_isready, is guessed to be a Wait.
//
// A host that wants a run ended which does nothing but wait sets [Config].Waits to [End]: ten waits or polls in a row
// that get the same then end it. That ends healthy runs, too, which wait for something: 26 of the 424 in testdata.
//
// What comes right after waits of 15 seconds together, or of unknown length, may be a poll, too, also if its class is
// Look: whoever sleeps and looks in turn waits for something. After shorter waits it repeats itself, because the time
// that a model thinks is part of a Gap.
//
// # Across restarts
//
// [Detector.MarshalBinary] returns all that the detector remembers, in less than 8 KiB: digests and counts, and never
// text. A digest of something short can be found again by trying; keep a state as you keep the names of tools.
//
// # What it does not do
//
// The package has no clock and no I/O, and starts and ends nothing. It does not know whether different calls help: an
// agent that makes a new useless edit each time is stopped by a budget.
package loop
