package stall

import "time"

// The defaults of a [Probe].
const (
	DefaultProbeInterval       = 30 * time.Second
	DefaultProbeTimeout        = 5 * time.Second
	DefaultStallThreshold      = 3
	DefaultProbeErrorThreshold = 3
)

// A ProbeError says what it means that a probe could not observe.
type ProbeError string

// What the failures of a probe mean. The zero value is ErrorIgnored.
const (
	ErrorIgnored  ProbeError = "ignore"
	ErrorStall    ProbeError = "stall"
	ErrorTerminal ProbeError = "terminal"
)

// A Probe is a second command that is run again and again to see whether the first gets anywhere: it prints one JSON object of at most 64 KiB, see the
// package comment.
type Probe struct {
	// Command is the probe's program and its arguments; no shell is involved. It runs in the command's folder and environment.
	Command []string
	// Interval is from the start of one probe to that of the next; the first runs at once. Zero means [DefaultProbeInterval].
	Interval time.Duration
	// Timeout is how long one probe may take. Zero means [DefaultProbeTimeout].
	Timeout time.Duration
	// StallThreshold is how many probes in a row have to see the same, at least 2. Zero means [DefaultStallThreshold].
	StallThreshold int
	// AnyExit takes the output of a probe whose exit status is not 0. Without it that probe is blind.
	AnyExit bool
	// OnError says what ErrorThreshold blind probes in a row mean. Zero means ErrorIgnored.
	OnError ProbeError
	// ErrorThreshold zero means [DefaultProbeErrorThreshold].
	ErrorThreshold int
	// Publish has the probe's reasons and summary written to the artifacts. Its fingerprints always are: they are what it is asked for.
	Publish bool
}
