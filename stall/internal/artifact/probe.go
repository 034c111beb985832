package artifact

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// ErrInvalidProbe is for a class, a digest or a reason for blindness that is not valid, and might be text that the
// probe printed. [Dir.AppendProbe] wraps it.
var ErrInvalidProbe = errors.New("invalid probe")

// Why a probe could not observe.
const (
	BlindTimeout = "timeout" // it took too long
	BlindExit    = "exit"    // its exit status was not 0
	BlindOutput  = "output"  // it did not print one JSON object
	BlindStart   = "start"   // it could not be started
)

var (
	classes   = []string{"", "progressing", "stalled", "terminal"}
	blindness = []string{"", BlindTimeout, BlindExit, BlindOutput, BlindStart}
)

// A Probe is a line of probe.jsonl, in the order of its fields.
type Probe struct {
	AtUnixMS   int64 `json:"at_unix_ms"`
	DurationMS int64 `json:"duration_ms"`
	// ExitCode is nil if the probe did not exit.
	ExitCode *int `json:"exit_code"`
	// Class is progressing, stalled, terminal, or empty if the probe did not say.
	Class string `json:"class"`
	// Digest is a hash in lower-case hexadecimal, even if the probe gave a digest of its own. It is empty if the probe
	// was blind.
	Digest string `json:"digest"`
	// Same is how many probes in a row saw this digest, including this one.
	Same int `json:"same"`
	// Blind is why the probe could not observe, or empty if it did.
	Blind string `json:"blind"`
	// Fingerprints are written as [Set] returns them.
	Fingerprints []string `json:"fingerprints"`
	// Reasons and Summary are empty unless the host publishes them.
	Reasons []string `json:"reasons,omitempty"`
	Summary string   `json:"summary,omitempty"`
}

// AppendProbe appends a line to probe.jsonl in one write, and does not sync it. First it removes an incomplete line
// that a crash left there. It may wrap [ErrInvalidProbe]. After an error, too, the file has only whole lines, unless
// the disk does not allow that.
func (d *Dir) AppendProbe(p Probe) error {
	if err := checkProbe(p); err != nil {
		return fmt.Errorf("append probe: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p.Fingerprints = Set(p.Fingerprints)
	text, err := line(p)
	if err != nil {
		return err
	}
	return d.write(ProbeFile, func(folder *os.Root) error { return appendLine(folder, ProbeFile, text) })
}

// checkProbe says which field is wrong, and not what it holds, which may be output.
func checkProbe(p Probe) error {
	switch {
	case !slices.Contains(classes, p.Class):
		return fmt.Errorf("%w: its class is not progressing, stalled, terminal or empty", ErrInvalidProbe)
	case !slices.Contains(blindness, p.Blind):
		return fmt.Errorf("%w: its blindness is not timeout, exit, output, start or empty", ErrInvalidProbe)
	case p.Digest != "" && !isHash(p.Digest):
		return fmt.Errorf("%w: its digest is not a hash; hash what the probe gave", ErrInvalidProbe)
	}
	return nil
}

// isHash reports whether a digest is 12 to 128 lower-case hexadecimal digits.
func isHash(digest string) bool {
	return len(digest) >= shortHash && len(digest) <= 128 && strings.Trim(digest, "0123456789abcdef") == ""
}
