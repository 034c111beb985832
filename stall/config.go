package stall

import (
	"log/slog"
	"os"
	"regexp"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A TripAction is what [Run] does about a [Trip].
type TripAction string

// The actions. The zero value means ActionInterrupt.
const (
	// ActionInterrupt ends the command: it sends the signals of [Config].Grace to everything that descends from the
	// command, up to SIGKILL.
	ActionInterrupt TripAction = "interrupt"
	// ActionFail ends the command with SIGKILL at once.
	ActionFail TripAction = "fail"
	// ActionIgnore lets the command go on. It records each silence and each lack of progress, and the first terminal
	// state.
	ActionIgnore TripAction = "ignore"
)

// An ActivitySource is the output of a command that counts as a sign of life.
type ActivitySource string

// The sources. The zero value means ActivityAny.
const (
	// ActivityAny counts standard output and standard error.
	ActivityAny ActivitySource = "output"
	// ActivityStdout counts standard output only.
	ActivityStdout ActivitySource = "stdout"
	// ActivityStderr counts standard error only.
	ActivityStderr ActivitySource = "stderr"
)

// A Config says when a command is stuck and what to do about it. [Run] copies it.
type Config struct {
	// Disabled switches the sentinel off, as the context of a run with [watchdog.Config].Disabled does: Run only starts
	// the command, waits for it, and ends all that descends from it when ctx ends; AlsoEnd, which belongs to the ending,
	// is then executed, too. Nothing trips, no probe is started, the Store is never called and no artifact is written. A
	// wrong config is an error all the same. In the context of a run that is not disabled the command is still a layer of
	// it: its output is the run's activity, and the run's end is its end. Run logs at Info that the command is not
	// watched.
	Disabled bool
	// Step names the command: its run is "<RunID>/<Step>", its artifacts are in "<Artifacts>/<Step>/_stall". It is
	// one path element of at most 100 characters, without a slash, a backslash, a colon or a control character.
	// It is required.
	Step string
	// CheckID, Workflow and Iteration are copied to the artifacts, also where they are empty or zero.
	CheckID, Workflow string
	Iteration         int

	// RunID and Store are for a command outside of a watchdog's context: the run that the command is a layer of, and
	// where its cancel is recorded. Inside a watchdog's context the command uses that run and its store, and both
	// fields must be empty. Outside, Store is required with NoOutput, Probe, Terminal or WallClock. Without one of these
	// nothing is recorded, and Step alone is a whole config. An empty RunID makes the command a run of its own, named
	// Step.
	RunID string
	Store watchdog.EventStore
	// WallClock limits how long the command may take. Zero and [watchdog.NoLimit] mean no limit.
	WallClock time.Duration
	// RecordTimeout bounds how long a store, a disk or a Logger that hangs delays a signal.
	// Zero means [watchdog.DefaultRecordTimeout].
	RecordTimeout time.Duration

	// NoOutput is how long the command may print nothing. [watchdog.NoLimit] means no limit, and so does zero, but for a
	// [Run] without a Probe in a watchdog's context: there zero means the run's Idle. Time in which a reader does not
	// take the output does not count, and neither does time in which the host itself was stopped, as by Ctrl-Z: at each
	// SIGCONT the silence begins again, three times without output at most. After a pause that no signal tells of, such
	// as that of docker pause, what was printed has a grace in which to be read, as [watchdog.Budget].Idle says, and so
	// have probes, to begin and to end in time.
	NoOutput time.Duration
	// IdleGoesOn is for a command that the run does not wait for, such as a server on a goroutine of its own: the Idle
	// and NoProgress of the runs around it go on during its [Run], and it gets no limit from them. Without it they stand
	// still.
	IdleGoesOn bool
	// FileItself gives the command an output that is a regular file as it is, also where silence is a signal: for a
	// command that seeks in it, maps it or looks at it, and for a file that was opened with O_DIRECT. Then the growth of
	// the file is its output, whoever writes to it: other writers keep a hung command alive, and Run logs a warning that
	// says so. Without it, what the command writes passes through a pipe into the file, and so does in any case what a
	// Terminal or a Tail reads. Where silence is no signal, the command gets the file itself.
	FileItself bool
	// ActivitySource says which output resets NoOutput. If standard output and standard error are one writer, both
	// do. Zero means ActivityAny.
	ActivitySource ActivitySource
	// Probe is a second command that says whether the first one makes progress. Nil means none.
	Probe *Probe
	// Terminal are patterns of output lines after which the command cannot succeed, such as a fatal error that it
	// retries forever. Empty means none. Only the first 64 KiB of a line are matched. A line ends at a newline or a
	// carriage return. The start of one, such as a prompt, is matched after half a second without output.
	Terminal []*regexp.Regexp

	// OnStall is the action for no output and no progress, OnTerminal the one for a terminal state. Zero means
	// ActionInterrupt.
	OnStall, OnTerminal TripAction
	// Grace has the signals that end the command, in order, and the time after each: at most ten steps. SIGKILL comes last
	// by itself; as the only step it is sent at once. Empty means SIGINT and SIGTERM, with [DefaultInterruptGrace] and
	// [DefaultTerminateGrace]. Windows has no signals but SIGINT, SIGTERM and SIGKILL: see the package comment.
	Grace []Step
	// OnSignal is called after each signal that ends the command, such as to show what is going on while a grace lasts.
	// Run does not wait for it. The calls come one after the other, on a goroutine that can outlive Run; after one that
	// takes longer than the RecordTimeout there are no more. Nil means that nobody is told.
	OnSignal func(Escalation)
	// Forward has signals that Run passes on to every process of the command, such as a SIGQUIT that the host got: see
	// [os/signal.Notify]. They end nothing by themselves. Nil means none, and so does a closed channel.
	Forward <-chan os.Signal
	// KeepBackground leaves processes running that a command started and left behind when it exited by itself. Without
	// it, Run ends them. Once Run has returned, they live on when the host ends, also by SIGKILL. On Linux [Command.Kill]
	// and [Command.Signal] still reach them. If they have an output that passes through Run, they can go on writing to it
	// after Run has returned: a goroutine for each output reads and drops that until they have closed it, so that nothing
	// is written to the host's writers any more. It ends with the host, and then their next write fails. So an output
	// that is a regular file is left to them as with FileItself. Give a server files of its own.
	KeepBackground bool

	// AlsoEnd is a second command, which ends what the first one has running elsewhere, such as in a container, when Run
	// ends the first one. Nil means none.
	AlsoEnd *AlsoEnd

	// TTY says that the command has the host's controlling terminal, as if it were the shell's job itself: until its end
	// the host uses that for nothing else. It changes nothing for a host without one, and is for Linux.
	//
	// If an output that is the terminal has to be read, because of NoOutput, Terminal, a Tail or the run around the
	// command, all streams that are the terminal become a pseudo-terminal, and the others stay what they are. It has the
	// size of the real one and is resized with it, so that the command prints as it would without Run: with colours, and
	// each line at once. A terminal is one stream for both outputs, and ends lines with CR LF: that alone is not as the
	// command wrote it. The command is in a session of its own. The real terminal passes all keys on, and is set as before
	// at the end, also if the host dies. It is lent to one command at a time: Run refuses another one. Ctrl-C and Ctrl-\
	// are signals for the command and for the host's process group. Ctrl-Z stops the command with all that it started, and
	// then the host's group; such time is no silence.
	//
	// Else the command has the terminal itself, in the process group of the host: it can read from it, and what the
	// terminal sends to the one it sends to the other. So it is with KeepBackground, too, but that its output is read from
	// a pipe: the end of a session hangs up on what is left.
	TTY bool

	// Artifacts is the folder for the files that describe a trip. Empty means that none are written.
	Artifacts string
	// FingerprintPrefix, followed by a slash, comes before the fingerprints that this package makes. It is not added
	// to those of a probe.
	FingerprintPrefix string
	// AsIncomplete is for a command that checks whether a task is complete. If it stalls, the answer is "incomplete":
	// Run sets [Result].Incomplete and writes decision.json, and returns no error.
	AsIncomplete bool
	// StepLog names a log that the host keeps of the command. It is copied to event.json. Empty means that there is none.
	StepLog string
	// Tail says how much of the end of standard error to keep among the artifacts. Nil means none.
	Tail *Tail

	// Logger gets what Run does not return to its caller. Nil means [slog.Default].
	Logger *slog.Logger
}

// A Tail says how to keep the end of standard error for diagnosis. If standard output and standard error are one
// writer, it is the end of both.
type Tail struct {
	// Bytes is how much to keep, from 1 to 1 MiB. Zero is an error.
	Bytes int
	// Redact removes secrets from the text before it is written. It is required: nil is an error. If it panics, or does
	// not return within the record timeout, the tail is not written.
	Redact func([]byte) []byte
}

// The times after the first two signals, where [Config].Grace is empty.
const (
	DefaultInterruptGrace = 10 * time.Second
	DefaultTerminateGrace = 20 * time.Second
)

// A Step is a signal on the way to the end of a command, and how long the command has after it.
type Step struct {
	Signal syscall.Signal
	// Grace is how long to wait for the end of all processes before the next step. Zero means not at all.
	Grace time.Duration
}

// The defaults of a [Probe].
const (
	DefaultProbeInterval       = 30 * time.Second
	DefaultProbeTimeout        = 5 * time.Second
	DefaultStallThreshold      = 3
	DefaultProbeErrorThreshold = 3
)

// A ProbeError says what it means if a probe cannot observe. It is a setting, not an error.
type ProbeError string

// The meanings. The zero value means ErrorIgnored.
const (
	// ErrorIgnored means nothing: the command goes on.
	ErrorIgnored ProbeError = "ignore"
	// ErrorStall means that the command makes no progress.
	ErrorStall ProbeError = "stall"
	// ErrorTerminal means that the command cannot succeed.
	ErrorTerminal ProbeError = "terminal"
)

// A Probe is a second command that [Run] executes again and again to see whether the first one makes progress. Each
// time it prints one JSON object of at most 64 KiB: see the package comment.
type Probe struct {
	// Command is the probe's program and its arguments. No shell is involved. The probe runs in the command's folder and
	// environment. On Linux it may do what the host may at that moment, and cannot be started, with the Why "start", if
	// that is more than what the thread that started the command could.
	Command []string
	// Interval is the time from the start of one probe to the start of the next. The first one runs at once.
	// Zero means [DefaultProbeInterval].
	Interval time.Duration
	// Timeout is how long one probe may take. Zero means [DefaultProbeTimeout].
	Timeout time.Duration
	// StallThreshold is how many probes in a row must see the same for a trip. It is at least 2.
	// Zero means [DefaultStallThreshold].
	StallThreshold int
	// AnyExit accepts the output of a probe whose exit status is not 0. Without it such a probe is blind.
	AnyExit bool
	// OnError says what ErrorThreshold blind probes in a row mean. Zero means ErrorIgnored.
	OnError ProbeError
	// ErrorThreshold is how many blind probes in a row OnError needs. Zero means [DefaultProbeErrorThreshold].
	ErrorThreshold int
	// Publish writes the probe's reasons and summary to the artifacts. Its fingerprints are always written.
	Publish bool
}

// DefaultAlsoEndTimeout is the default of [AlsoEnd].Timeout.
const DefaultAlsoEndTimeout = 10 * time.Second

// An AlsoEnd is a command that ends what the guarded command has running elsewhere. What a daemon starts on its behalf
// is not one of its descendants, and no signal of [Run] reaches it: the processes of docker exec, of a pod, of ssh, of
// systemd-run, or of a server behind a socket.
//
// Run executes it once, after it has ended the command and all that descends from it: after a trip, the end of ctx or
// of the run around the command, a wall clock, or a [Command.Kill]. So a client mostly had its grace to end its work
// itself, and AlsoEnd should succeed if there is nothing left to end. Run also executes it if processes survived, or if
// it lost sight of the command. It belongs to the ending and not to the watching: [Config].Disabled does not switch it
// off.
//
// Run does not execute it for a command that exited by itself or was never started. If the host dies, by SIGKILL or
// otherwise, nobody does. Work that a daemon begins only after AlsoEnd has looked is not ended.
//
// It is a process tree of its own, of which nothing is left when Run returns. Its standard input is empty. Its output
// is dropped, and like its arguments and its environment it is recorded nowhere.
type AlsoEnd struct {
	// Command is the program and its arguments. No shell is involved. It runs in the guarded command's folder and
	// environment, so that a token in that can name what to end. A program that is not in the host's PATH is an error
	// before the guarded command starts. On Linux it may do what the host may at that moment, and cannot be started if
	// that is more than what the thread that started the command could.
	Command []string
	// Timeout is how long it may take; then it is ended with SIGKILL. Zero means [DefaultAlsoEndTimeout].
	Timeout time.Duration
}
