package stall

import "time"

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
