package main

const description = "End runs that hang, and say why.\n\n" +
	"watchdog run guards any command. The other commands look at sessions that hosts keep in a database, with --store."

// A commandLine is all that can be written on the command line. Kong parses it, and generates the help, the man page
// and the completions from it.
type commandLine struct {
	Common `embed:""`

	Run        runCmd        `cmd:"" help:"Run a command, and end it with all that it started when it is stuck."`
	Why        whyCmd        `cmd:"" help:"Tell why a run, or a command that stalled, ended, and how to go on."`
	Sessions   sessionsCmd   `cmd:"" help:"List the sessions in a store."`
	Tail       tailCmd       `cmd:"" help:"Follow the events of a run, or of all, as they are stored."`
	Complete   completeCmd   `cmd:"" help:"Record that a run has done its work."`
	Resume     resumeCmd     `cmd:"" help:"Open a fresh window for a run that was cancelled."`
	Sweep      sweepCmd      `cmd:"" help:"Cancel the sessions in a store that have stalled."`
	Serve      serveCmd      `cmd:"" help:"Sweep a store, and serve a page of its runs."`
	Notify     notifyCmd     `cmd:"" help:"Tell a webhook of the stops in a store, or test it."`
	Check      checkCmd      `cmd:"" help:"Say which limits are in force, and where each comes from."`
	Loops      loopsCmd      `cmd:"" help:"Say where agents repeated themselves in sessions that are over."`
	Completion completionCmd `cmd:"" help:"Print the completions for a shell."`
	Man        manCmd        `cmd:"" help:"Print the man page."`
	Version    versionCmd    `cmd:"" help:"Print the version, for bug reports."`
}

// Common are the flags that every command has.
//
//nolint:lll // a tag cannot be broken
type Common struct {
	Store  string `placeholder:"URL"  env:"WATCHDOG_STORE"  help:"Where events and sessions are kept: sqlite:PATH or postgres://HOST/DATABASE."`
	Config string `placeholder:"FILE" env:"WATCHDOG_CONFIG" help:"A configuration file with limits, as watchdog check explains them." type:"path"`
	JSON   bool   `name:"json"        env:"WATCHDOG_JSON"   help:"Print JSON for programs instead of text for people."`
}
