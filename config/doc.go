// Package config reads the limits of runs, of commands and of sessions from a YAML file and from the environment, as strictly as a limit deserves:
// what is not understood is an error that names the place, the value and what is allowed, never a default in silence.
//
// # The file
//
//	runtime_controls:
//	  session_wall_clock_seconds: 14400   # 0 disables; absent means 4 h
//	  idle_timeout_seconds: 600           # 0 disables; absent means off
//	  ladders:
//	    idle: [retry, cancel]
//	stall:
//	  no_output_timeout: 5m
//	  terminal_patterns: ['^fatal: ']
//	sweep:
//	  stalled_threshold: 10m
//
// The file may be the host's own: other blocks at its top level are left alone. Inside runtime_controls, stall and sweep every key
// is ours, and an unknown one is an error. [Load] reads a file, [Parse] a text that is in memory already.
//
// # The environment
//
// Each key but the sets of events, the command of a probe and the patterns has a variable, such as WATCHDOG_SESSION_WALL_CLOCK_SECONDS, which overrides the
// file and is read as strictly. Where the environment comes from is the host's choice: see [Lookup] and [NoEnvironment].
//
// # What is in force
//
// A [Config] holds limits ready for the watchdog, and prints itself as a table of every limit and where it came from;
// [Config.Limits] gives the same as data. Every key, variable, default and error is described in docs/configuration.md.
//
// # What can never take effect
//
// A ladder for a limit that is off, an idle limit as long as the whole session, a sentinel without a signal: such a setting is an error too. Only a
// variable may leave without effect what the file says.
//
// # What it does not do
//
// It does not watch files for changes, look for files in well-known places, expand variables inside of values,
// or look at variables that it does not know.
package config
