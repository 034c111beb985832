// Package stall runs one command and ends it early when it is stuck, with everything that it started.
//
//	result, err := stall.Run(ctx, exec.Command("make", "test"), stall.Config{
//		Step: "test", Store: store, NoOutput: 5 * time.Minute, Artifacts: "state",
//	})
//
// # What says that a command is stuck
//
// Three signals, alone or together: no output for a time ([Config].NoOutput); a [Probe], a second command whose findings do not change or say that nothing good
// can come; and patterns of output ([Config].Terminal). Inside a watchdog's context the command is a layer of that run besides: its output is the run's activity,
// what is new to its probe the run's progress, and it ends with the run.
//
// # What a probe prints
//
// One JSON object of at most 64 KiB. All of its keys are optional:
//
//	class         "progressing": it gets somewhere. "terminal": nothing good can come. "stalled", or none: equal findings count.
//	digest        what to compare with the probe before. Without it that is the whole object, at any depth, in any order of keys.
//	fingerprints  short names of what is wrong, such as "k8s/crd/missing:NAME"
//	reasons       lines for people
//	summary       one more
//
// A probe that cannot observe, because it fails, hangs or prints something else, is blind: that is reported, is not "no change", and begins the count of equal ones anew.
//
// # What is done
//
// The cancel is recorded in the [watchdog.EventStore], then in event.json, and then the signals are sent: SIGINT, after a [Grace] SIGTERM, after another SIGKILL, each to
// every living process that descends from the command. When Run returns none is alive: not one that left the process group, became a daemon, was stopped or ignored
// the signals, nor one that a command left behind that ended by itself, unless [Config].KeepBackground. What was asked, what was sent and what
// it came to stand apart in the [Result] and in event.json, with fingerprints that tell whether the next attempt fails in the same way: see package converge.
//
// On Linux the command dies with its host too, however that dies. For it the first Run starts a second process of the host's own program, the guard, which is the parent of all
// commands and ends with the host. On other systems only what stays in the command's process group is reached, and on Windows only the command itself; see the package comment of
// internal/proctree.
//
// # Secrets
//
// Neither the output, the arguments and the environment of a command nor the output of a probe are in any event, artifact, log or error. The exceptions are asked for one by
// one: a [Tail], which is redacted, a probe's Publish, and a probe's fingerprints, which are what it is asked for.
//
// The package does not retry and does not limit what a command uses; [Run] is for one command, and what it should do next is the host's.
package stall
