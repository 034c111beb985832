// Package config reads the limits of runs, commands and sessions from a YAML file and from the environment. It is
// strict: a value that it does not understand is an error with the place, the value and what is allowed, and never
// becomes a default.
//
// # The file
//
//	runtime_controls:
//	  session_wall_clock_seconds: 14400   # 0 disables; absent means 4 h
//	  idle_timeout_seconds: 600           # 0 disables; absent means off
//	  ladders:
//	    idle: [retry, cancel]
//	  spend:
//	    cost: 5.00 EUR                    # 0 disables; absent means off
//	stall:
//	  no_output_timeout: 5m
//	  terminal_patterns: ['^fatal: ']
//	sweep:
//	  stalled_threshold: 10m
//	  keeper:
//	    pace: 1s
//
// The file may be the host's own: package config ignores other blocks at its top level, unless one has a name close to
// ours, is in our style, or has a stall block in a place where nothing reads it. In runtime_controls, stall and sweep
// an unknown key is an error, and the error of a key that is gone says what to do instead: see [Retired]. [Load] reads
// a file, [Parse] a text in memory.
//
// # The steps of a workflow
//
// The file may be that of a workflow. [Config.Step] merges steps.NAME.stall over defaults.stall, and does the same for
// the completion check of a step.
//
// # The environment
//
// Each key but the sets of events, the patterns and the commands of a probe and of also_end has a variable,
// such as WATCHDOG_SESSION_WALL_CLOCK_SECONDS. It overrides the file, and the same rules apply; a blank one is not set.
// A misspelt variable of the process is an error. The host chooses where variables come from and how their names begin:
// see [Lookup], [NoEnvironment] and [Loader].
//
// # The switch
//
// runtime_controls.disabled and its variable WATCHDOG_DISABLED switch the guards of runs, commands and sessions off at
// once: see [Config].
//
// # The limits in force
//
// A [Config] holds limits ready for the watchdog. It prints itself as a table of every limit and its source, and what
// follows for sessions: see [Config.WorstTime]. [Config.Limits] returns the limits as data. docs/configuration.md
// lists the pages that describe every key, variable, default and error.
//
// # Settings without effect
//
// A setting that can never take effect is an error: a ladder for a limit that is off, an idle limit as long as the
// whole session, a stall block without a signal. Only a variable may leave a setting of the file without effect.
//
// # What it does not do
//
// It does not watch files for changes, look for files in well-known places, expand variables in values, or read
// variables of the host.
package config
