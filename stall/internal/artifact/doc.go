// Package artifact writes the files that describe a trip of the stall sentinel. Each file is there whole or not at all:
//
//	<root>/<step>/_stall/event.json       what tripped, what was done about it and how the command ended
//	<root>/<step>/_stall/probe.jsonl      a line for each probe
//	<root>/<step>/_stall/stderr.tail.log  the end of standard error
//	<root>/<step>/_stall/decision.json    for a completion check: that it is incomplete, and why
//
// A file is written under a temporary name, synced, and then renamed: a reader sees the old file or the new one. Other
// programs read these files, so the bytes of all but stderr.tail.log are a contract.
//
// Nothing outside of the root is touched, whatever a step is called and whatever is in its folder. A step's name is one
// path element ([CheckStep]), the root stays the folder that it was when it was opened, and a symbolic link below it is
// refused even if it points inside. Every call walks down from the root again, so that it sees a link, or a missing
// folder, that was not there before.
//
// The files of an earlier attempt at the same step keep their names until [Dir.SetAside] puts "previous." before them.
//
// The package does not decide, does not redact and does not limit the size of what it writes.
package artifact
