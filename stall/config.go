package stall

import (
	"log/slog"
	"regexp"
	"time"

	"github.com/seed62658d38/watchdog"
)

// The graces where [Grace] does not say.
const (
	DefaultInterruptGrace = 10 * time.Second
	DefaultTerminateGrace = 20 * time.Second
)

// A TripAction is what a trip does.
type TripAction string

// The actions. The zero value is ActionInterrupt.
const (
	// ActionInterrupt ends the command: SIGINT, SIGTERM and SIGKILL to everything it started, a [Grace] between them.
	ActionInterrupt TripAction = "interrupt"
	// ActionFail ends it with SIGKILL at once.
	ActionFail TripAction = "fail"
	// ActionIgnore records the first trip and watches on.
	ActionIgnore TripAction = "ignore"
)

// An ActivitySource names the output that counts as a sign of life.
type ActivitySource string

// The sources. The zero value is ActivityAny.
const (
	ActivityAny    ActivitySource = "output"
	ActivityStdout ActivitySource = "stdout"
	ActivityStderr ActivitySource = "stderr"
)

// A Config says when a command is stuck and what is done then. It is copied; changing it later changes nothing.
type Config struct {
	// Step names the command: its run is "<RunID>/<Step>", its artifacts are in "<Artifacts>/<Step>/_stall". One path element of at most 100
	// characters, without a slash, a backslash or a control character. It must be set.
	Step string
	// CheckID, Workflow and Iteration are written to the artifacts as they are.
	CheckID, Workflow string
	Iteration         int

	// RunID and Store are for a command outside of a watchdog's context: the run that the command is a layer of, and where its cancel is recorded. Inside one they are that run's
	// and must not be set. An empty RunID makes the command a run of its own, named Step; the Store must be set.
	RunID string
	Store watchdog.EventStore
	// WallClock limits how long the command may take; zero means no limit of its own.
	WallClock time.Duration
	// RecordTimeout bounds how long a store that hangs delays a signal. Zero means [watchdog.DefaultRecordTimeout].
	RecordTimeout time.Duration

	// NoOutput is how long the command may be silent; zero means that silence is no signal. A reader of the output that does not take it is not
	// the command's silence.
	NoOutput time.Duration
	// ActivitySource says which output counts against NoOutput; both do where they are one writer. Zero means ActivityAny.
	ActivitySource ActivitySource
	// Probe, where set, asks a second command whether the first gets anywhere.
	Probe *Probe
	// Terminal are patterns of lines of output after which nothing good can come, such as a fatal error that is retried for ever. None is the default. A line
	// is looked at in its first 64 KiB.
	Terminal []*regexp.Regexp

	// OnStall is what no output and no progress do, OnTerminal what a terminal state does. Zero means ActionInterrupt.
	OnStall, OnTerminal TripAction
	// Grace are the times between the signals.
	Grace Grace
	// KeepBackground leaves alone what a command that ended by itself left running. Without it everything that the command started is ended.
	KeepBackground bool

	// Artifacts is the folder under which a trip is described; empty means that nothing is written.
	Artifacts string
	// FingerprintPrefix comes before the fingerprints of the sentinel's own, and a slash between; those of a probe stay as they are.
	FingerprintPrefix string
	// AsIncomplete is for a command that checks whether a task is complete: if it stalls, the answer is "incomplete". That is no error of [Run]; it is written to
	// decision.json, and [Result].Incomplete tells it.
	AsIncomplete bool
	// Tail, where set, keeps the end of standard error among the artifacts.
	Tail *Tail

	// Logger gets what no caller is returned. Nil means [slog.Default].
	Logger *slog.Logger
}

// A Grace is how long each signal may take before the next is sent.
type Grace struct {
	// Interrupt is the time after SIGINT, Terminate that after SIGTERM. Zero means [DefaultInterruptGrace] and [DefaultTerminateGrace], [watchdog.None] that
	// the next signal follows at once.
	Interrupt, Terminate time.Duration
}

// A Tail is the end of standard error, kept for diagnosis; of both outputs where they are one writer.
type Tail struct {
	// Bytes is how much is kept, from 1 to 1 MiB.
	Bytes int
	// Redact removes secrets from what is written. It must be set: package redact, a module of its own, has one.
	Redact func([]byte) []byte
}
