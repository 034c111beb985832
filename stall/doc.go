// Package stall runs a command and ends it early, with everything that descends from it, if it is stuck.
//
//	result, err := stall.Run(ctx, exec.Command("make", "test"), stall.Config{
//		Step: "test", Store: store, NoOutput: 5 * time.Minute, Artifacts: "state",
//	})
//
// [Run] starts a command and waits for it. A [Command] is the same in parts, for a host that talks to the command while
// it runs: pipes, Start, Wait.
//
// Without a limit and without a store, Run and Command only end the command with everything that it started: when ctx
// ends, and what is left when it exits. That is one line, and logs nothing:
//
//	result, err := stall.Run(ctx, exec.Command("make", "test"), stall.Config{Step: "test"})
//
// # When a command is stuck
//
// Three signals, alone or together, say that a command is stuck:
//
//   - It prints nothing for too long: [Config].NoOutput.
//   - A second command, the [Probe], reports the same state several times in a row, or reports a state from which the
//     command cannot recover.
//   - It prints a line that matches a pattern of [Config].Terminal.
//
// Inside a watchdog's context the command is also a layer of that run: its output is activity of the run, a new probe
// result is progress of the run, and the command ends when the run ends. While Run waits for it, its own silence counts
// and not the run's; without a limit of its own the run's Idle ends it, and the run goes on.
//
// # What a probe prints
//
// A probe prints one JSON object of at most 64 KiB. All keys are optional:
//
//	class         "progressing", "terminal" or "stalled": see below
//	digest        the text to compare with the previous probe; without it the whole object is compared, at any depth,
//	              and the order of keys does not matter
//	fingerprints  short names of what is wrong, such as "k8s/crd/missing:NAME"
//	reasons       lines for people
//	summary       one more line for people
//
// "progressing" resets the count of equal results. "terminal" trips at once. With "stalled", or without a class, equal
// results count.
//
// A probe that fails, hangs or prints something else is blind. A blind probe is reported, does not count as "no
// change", and resets the count of equal results.
//
// # What happens then
//
// Run records the cancel in the [watchdog.EventStore] and in event.json. Then it sends the signals to every living
// process that descends from the command: those of [Config].Grace, or else SIGINT, after ten seconds SIGTERM, after
// twenty more SIGKILL. When Run returns, none of these processes is alive, even if it left the process group, became a
// daemon, was stopped or ignored the signals. Run also ends the processes that a command left behind when it exited by
// itself, unless [Config].KeepBackground is set.
//
// What a daemon starts on the command's behalf (docker exec, a pod, ssh, systemd-run, a server behind a socket) is not
// a descendant of the command, and no signal reaches it. [Config].AlsoEnd is a command that ends it there, too.
//
// A command that exits by itself before the first signal has finished, also if that is while its cancel is recorded.
// Then a [event.Correction] is recorded, too, and readers of both say finished.
//
// The [Result] and event.json say what was requested, what was sent and what ended the command. Their fingerprints say
// whether the next attempt fails in the same way: see package converge.
//
// On Linux the command also dies if its host process dies, even by SIGKILL. For this the first Run starts a second
// process of the host's own program, the guard. It is the parent of all commands and ends with the host. On other Unix
// systems Run reaches only the command's process group. On Windows the command and all that it starts are in a job
// object, which ends with the host; SIGINT and SIGTERM are a console break there, which a command without the host's
// console does not get, and a [Config].Grace with others is an error. The Windows part was run under Wine only. The
// package comment of internal/proctree has the details.
//
// # Secrets
//
// No event, artifact, log or error holds the output, the arguments or the environment of a command, of a probe or of an
// [AlsoEnd]. There are three exceptions, and each has to be turned on: a [Tail], which is redacted, the reasons and the
// summary of a probe with [Probe].Publish, and a probe's fingerprints, which it prints in order to be published.
//
// The package does not retry a command and does not limit the memory, processor time or disk space that it uses. [Run]
// and [Command] run one command, and the host decides what to do next.
package stall
