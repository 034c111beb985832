package artifact

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// ErrInvalidProbe is wrapped by what [Dir.AppendProbe] returns for a class, a blindness or a digest that is none, and might be the probe's own text.
var ErrInvalidProbe = errors.New("invalid probe")

// Why a probe could not observe.
const (
	BlindTimeout = "timeout" // it took too long
	BlindExit    = "exit"    // its exit status was not 0
	BlindOutput  = "output"  // it printed something else than one JSON object
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
	// ExitCode is nil where there was none.
	ExitCode *int `json:"exit_code"`
	// Class is progressing, stalled, terminal or, where the probe did not say, empty.
	Class string `json:"class"`
	// Digest is a hash in lower-case hexadecimal, also where the probe gave a digest of its own; empty where it was blind.
	Digest string `json:"digest"`
	// Same is how many probes in a row saw this digest, this one included.
	Same int `json:"same"`
	// Blind is why the probe could not observe, and empty where it did.
	Blind string `json:"blind"`
	// Fingerprints are written as [Set] has them.
	Fingerprints []string `json:"fingerprints"`
	// Reasons and Summary are given where the host has them published.
	Reasons []string `json:"reasons,omitempty"`
	Summary string   `json:"summary,omitempty"`
}

// AppendProbe adds a line to probe.jsonl in one write, and does not sync it. A half line that a crash left there is cut off first. The error may wrap
// [ErrInvalidProbe]; then, and after every other error, the file has whole lines only, as far as the disk allows.
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

// checkProbe says which field is wrong and not what it holds, which may be output.
func checkProbe(p Probe) error {
	switch {
	case !slices.Contains(classes, p.Class):
		return fmt.Errorf("%w: its class is none of progressing, stalled, terminal and empty", ErrInvalidProbe)
	case !slices.Contains(blindness, p.Blind):
		return fmt.Errorf("%w: its blindness is none of timeout, exit, output, start and empty", ErrInvalidProbe)
	case p.Digest != "" && !isHash(p.Digest):
		return fmt.Errorf("%w: its digest is no hash; hash what the probe gave", ErrInvalidProbe)
	}
	return nil
}

// isHash tells 12 to 128 lower-case hexadecimal digits.
func isHash(digest string) bool {
	return len(digest) >= shortHash && len(digest) <= 128 && strings.Trim(digest, "0123456789abcdef") == ""
}
