// Package artifact writes the files that a trip of the stall sentinel leaves, each whole or not at all:
//
//	<root>/<step>/_stall/event.json       what tripped, what was done about it and what that came to
//	<root>/<step>/_stall/probe.jsonl      a line for each probe
//	<root>/<step>/_stall/stderr.tail.log  the end of standard error
//	<root>/<step>/_stall/decision.json    for a completion check: that it is incomplete, and why
//
// A file that is written anew is first written beside its name, synced, and then renamed: a reader sees the old one or the new one. The bytes of all but
// stderr.tail.log are a contract with whoever reads them later.
//
// Nothing outside the root is touched, whatever a step is called and whatever lies in its folder: a step's name is one path element ([CheckStep]), the root stays
// the folder that it was when it was opened, and a symbolic link below it is refused, also one that points inside. Every call goes down from the root anew
// and so sees a link, or a missing folder, that was not there at the call before.
//
// The package does not decide, does not redact and does not bound what it is given; it does not take away what an earlier attempt at the same step left.
package artifact
