package stall

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A TripKind is the kind of signal that said that a command is stuck.
type TripKind string

// The kinds of trip.
const (
	// KindNoOutput means that the command printed nothing for [Config].NoOutput.
	KindNoOutput TripKind = "no_output"
	// KindNoProgress means that probes saw no change, or that they could not observe and [Probe].OnError is ErrorStall.
	KindNoProgress TripKind = "no_progress"
	// KindTerminal means that a probe or an output line said that the command cannot succeed, or that probes could not
	// observe and [Probe].OnError is ErrorTerminal.
	KindTerminal TripKind = "terminal"
	// KindWallClock means that the command used up [Config].WallClock. [Run]'s error is the [*watchdog.Stop] then, and not
	// a [*Stalled].
	KindWallClock TripKind = "wall_clock"
)

// A Trip says that a command was stuck.
type Trip struct {
	Kind TripKind
	// Reason says for people why the command is stuck. It holds no output of the command or the probe.
	Reason string
	// ObservedAt is when it was noticed.
	ObservedAt time.Time
	// Action is what was done about it.
	Action TripAction
	// Fingerprints are short, stable names of what is wrong: at most 32, sorted, without duplicates. If two attempts
	// have the same ones, the second attempt failed like the first.
	Fingerprints []string
	// Reasons and Summary are the probe's. They are empty unless [Probe].Publish is set.
	Reasons []string
	Summary string
}

// Sent is a signal that was sent.
type Sent struct {
	Signal syscall.Signal
	At     time.Time
	// Processes is how many processes it reached. Missed is how many were alive that it could not reach, for example
	// because another user owns them.
	Processes, Missed int
}

// An Escalation is how far the end of a command is: the signal that was sent last, and the one that follows at NextAt
// if a process is alive then. After SIGKILL there is none: Next is 0.
type Escalation struct {
	Sent
	Next   syscall.Signal
	NextAt time.Time
}

// A Result says how a command ended. [Run] does not use it after it has returned.
type Result struct {
	// RunID is the ID of the command's run, "<run>/<step>".
	RunID string
	// ExitCode is the exit status, or -1 if a signal ended the command. Signal is that signal, or 0.
	ExitCode int
	Signal   syscall.Signal
	// Elapsed is the time from the start until none of the command's processes was alive. User and System are the
	// processor times of the command and of the children that it waited for. MaxRSS is their peak memory in bytes, or 0
	// if the operating system does not say.
	Elapsed      time.Duration
	User, System time.Duration
	MaxRSS       int64

	// Trip is the trip that ended the command, or else the first one, or nil. With ActionIgnore the command went on after
	// it. Trips are all, also those that were ignored, and at most the first 100; the store has each.
	Trip  *Trip
	Trips []Trip
	// Requested are the signals of the action, Sent those of them that were sent, in order. Terminated says that the
	// command was alive before the first signal and that none of its processes was alive after the last. EndedBy is the
	// signal after which none was alive, or 0; it is SIGKILL after a [Command.Kill], which is not in Sent.
	Requested  []syscall.Signal
	Sent       []Sent
	Terminated bool
	EndedBy    syscall.Signal
	// Finished says that the command exited by itself before the first signal, even if it had tripped, and that no
	// [Command.Kill] ended it; a [Command.Signal] may have. If its cancel was recorded already, a
	// [event.Correction] is, too.
	Finished bool
	// LeftBehind is how many processes were alive after the command exited by itself, and were ended then. It is 0 with
	// [Config].KeepBackground, however many were kept.
	LeftBehind int
	// Survivors are the IDs of the processes that could not be ended.
	Survivors []int
	// AlsoEnded says what came of [Config].AlsoEnd. It is nil if that was not executed: there is none, or the command
	// exited by itself.
	AlsoEnded *AlsoEnded

	// Probes counts the probes.
	Probes Probes
	// Incomplete says that the command was a completion check that stalled: see [Config].AsIncomplete.
	Incomplete bool
	// Artifacts is the folder with the files that were written, or empty if none were.
	Artifacts string
	// ArtifactErr is why an artifact could not be written, OutputErr why output could not be passed on. Both are nil if
	// nothing failed. Run does not return them as its error.
	ArtifactErr, OutputErr error
}

// Fingerprints returns those of the trip that ended the command, for package converge. They are none if the command
// ended without one, or by itself, and for a nil Result.
func (r *Result) Fingerprints() []string {
	if r == nil || r.Trip == nil || r.Finished {
		return nil
	}
	return slices.Clone(r.Trip.Fingerprints)
}

// Probes counts the probes of a command.
type Probes struct {
	// Count is the number of probes, Blind the number of those that could not observe.
	Count, Blind int
	// BlindFor is how many of the last probes in a row were blind. Why is the cause for the last of them: "start",
	// "timeout", "exit" or "output". While BlindFor is not 0, it is unknown whether the command makes progress.
	BlindFor int
	Why      string
	// Volatile are the names of the fields, sorted, if the probe's results differed in exactly these five times in a row
	// or more, such as "state.updated_at". If one of them is a clock, the probe can never see the same twice: have it
	// print a digest of the rest.
	Volatile []string
}

// An AlsoEnded says what came of an [AlsoEnd].
type AlsoEnded struct {
	// ExitCode is its exit status, or -1 if it was not started, took too long or was ended by a signal.
	ExitCode int
	// Failed is why it may not have done its work: "start" if it could not be started, "timeout", or "exit" if it did
	// not exit with status 0. It is empty if it did.
	Failed string
	// Elapsed is how long it took.
	Elapsed time.Duration
	// Err is nil if it exited with status 0. Else it wraps [ErrAlsoEnd], and nothing that could be taken for an error of
	// the guarded command.
	Err error
}

// ErrSurvivors says that processes of a command are still alive. [Run] and [Command.Wait] wrap it if they could not end
// a process, such as one of another user. The text of their error lists the process IDs, as [Result].Survivors does.
var ErrSurvivors = errors.New("processes survived")

// ErrAlsoEnd says that a command was ended, and that [Config].AlsoEnd did not end what it had running elsewhere. [Run]
// and [Command.Wait] wrap it if that could not be started, took too long or failed; [Result].AlsoEnded has the same
// error.
var ErrAlsoEnd = errors.New("what the command started elsewhere may be alive")

// Stalled is the error of [Run] and [Command.Wait] for a command that they ended because it was stuck. [errors.Is]
// finds the code of its [watchdog.Stop], such as [watchdog.CommandNoOutput].
type Stalled struct {
	// Trip says why the command was stuck.
	Trip Trip
	// Stop is why the command's run ended, as it is in the store.
	Stop *watchdog.Stop
}

// Error says which command was ended and why.
func (s *Stalled) Error() string {
	return fmt.Sprintf("step %s was ended: %s", s.Stop.RunID, s.Trip.Reason)
}

// Unwrap returns the Stop.
func (s *Stalled) Unwrap() error { return s.Stop }

// An ended is the error of a command that was ended: why it was, and, behind that, what package exec would have said.
type ended struct {
	error
	exit error
}

// Unwrap returns both.
func (e *ended) Unwrap() []error { return []error{e.error, e.exit} }

// An ExitError is the error of [Run] and [Command.Wait] in place of an [os/exec.ExitError] where there is no
// [os.ProcessState]: on a Unix other than Linux if somebody else waited for the command, and on Linux with a future Go
// in which an os.ProcessState has other fields. One variable for [errors.As] finds both:
//
//	var exit interface{ ExitCode() int }
type ExitError struct {
	// Code is the exit status, or -1 if a signal ended the command or if it is unknown.
	Code int
	// By is the signal that ended the command, or 0.
	By syscall.Signal
}

// ExitCode returns Code.
func (e *ExitError) ExitCode() int { return e.Code }

// Error says how the command ended, in the words of package os.
func (e *ExitError) Error() string {
	if e.By != 0 {
		return "signal: " + e.By.String()
	}
	return fmt.Sprintf("exit status %d", e.Code)
}
