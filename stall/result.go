package stall

import (
	"syscall"
	"time"
)

// A TripKind is what tripped.
type TripKind string

// The kinds.
const (
	KindNoOutput   TripKind = "no_output"
	KindNoProgress TripKind = "no_progress"
	KindTerminal   TripKind = "terminal"
)

// A Trip is a command that was seen to be stuck.
type Trip struct {
	Kind TripKind
	// Reason says it for people, without anything of the command's.
	Reason string
	// ObservedAt is when it was seen.
	ObservedAt time.Time
	// Action is what was done about it.
	Action TripAction
	// Fingerprints are short, stable names of what is wrong, sorted, each once; at most 32. The same ones in two attempts mean that the second
	// failed like the first.
	Fingerprints []string
	// Reasons and Summary are the probe's, where [Probe].Publish is set.
	Reasons []string
	Summary string
}

// Sent is a signal that was sent.
type Sent struct {
	Signal syscall.Signal
	At     time.Time
	// Processes is how many it reached.
	Processes int
}

// A Result is what came of a command. It is the caller's.
type Result struct {
	// RunID is the run that the command was: "<run>/<step>".
	RunID string
	// ExitCode is the exit status, -1 where a signal ended the command; Signal is that signal.
	ExitCode int
	Signal   syscall.Signal
	// Elapsed is how long it took, until nothing of it was alive. User and System are the processor times of the command and those it waited for, MaxRSS their largest
	// memory in bytes; MaxRSS is 0 where the system does not tell.
	Elapsed      time.Duration
	User, System time.Duration
	MaxRSS       int64

	// Trip is the first trip, nil where there was none. With ActionIgnore the command went on.
	Trip *Trip
	// Requested are the signals that the action has, Sent those that were sent, in order. Terminated tells that the command was alive before the first and nothing of it
	// after the last; EndedBy is the signal that it took.
	Requested  []syscall.Signal
	Sent       []Sent
	Terminated bool
	EndedBy    syscall.Signal
	// Finished tells that the command ended by itself before the first signal: it is finished, also where it had tripped.
	Finished bool
	// LeftBehind is how many processes were alive when the command had ended by itself.
	LeftBehind int
	// Survivors are the numbers of processes that could not be ended.
	Survivors []int

	// Probes are what the probe came to.
	Probes Probes
	// Incomplete tells that the command was a completion check that stalled: see [Config].AsIncomplete.
	Incomplete bool
	// Artifacts is the folder that describes the trip; empty where nothing was written.
	Artifacts string
	// ArtifactErr is why an artifact could not be written, OutputErr why output could not be passed on, nil for all is well. Neither is an error of Run.
	ArtifactErr, OutputErr error
}

// Probes count what a probe saw.
type Probes struct {
	// Count is how many there were, Blind how many of them saw nothing.
	Count, Blind int
	// BlindFor is how many in a row the last ones were blind, and Why in which way: "start", "timeout", "exit" or "output". While BlindFor is not 0 nobody
	// knows whether the command gets anywhere.
	BlindFor int
	Why      string
}
