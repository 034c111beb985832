package probe

import (
	"bytes"
	"sync"
)

// A Blind says why a probe could not observe. It is empty for a probe that did.
type Blind string

// Why a probe could not observe.
const (
	BlindStart   Blind = "start"   // it could not be started
	BlindTimeout Blind = "timeout" // it did not exit within its timeout
	BlindExit    Blind = "exit"    // it failed
	BlindOutput  Blind = "output"  // it did not print an observation
)

var blindTexts = map[Blind]string{
	"":           "the probe saw the state",
	BlindStart:   "the probe could not be started",
	BlindTimeout: "the probe did not end within its timeout",
	BlindExit:    "the probe failed",
	BlindOutput:  "the probe's output is no observation",
}

// String returns a text for people.
func (b Blind) String() string { return blindTexts[b] }

// An Outcome says how one run of a probe ended.
type Outcome struct {
	// StartErr is why the probe did not start, or nil.
	StartErr error
	// TimedOut says that the probe was ended at its timeout.
	TimedOut bool
	// ExitStatus is negative if a signal ended the probe.
	ExitStatus int
	// Output is what the probe printed, or at least the first MaxOutput+1 bytes of it.
	Output []byte
}

// Read returns what a probe saw, or why it was blind. With anyExit the output counts whatever the exit status is. A
// probe that did not exit, because a signal or its timeout ended it, is blind even then.
func Read(o Outcome, anyExit bool) (Observation, Blind) {
	switch {
	case o.StartErr != nil:
		return Observation{}, BlindStart
	case o.TimedOut:
		return Observation{}, BlindTimeout
	case o.ExitStatus < 0, o.ExitStatus > 0 && !anyExit:
		return Observation{}, BlindExit
	}
	seen, err := Parse(o.Output)
	if err != nil {
		return Observation{}, BlindOutput
	}
	return seen, ""
}

// A Capture is a writer that keeps the first MaxOutput+1 bytes and drops the rest: enough for [Parse] to read the
// output, or to see that it is too long. The zero value is ready to use. A Capture is safe for concurrent use and
// must not be copied.
type Capture struct {
	mu   sync.Mutex
	kept []byte
}

// Write keeps as much of text as there is room for. It never blocks and never fails.
func (c *Capture) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	room := MaxOutput + 1 - len(c.kept)
	c.kept = append(c.kept, text[:min(room, len(text))]...)
	return len(text), nil
}

// Bytes returns a copy of what is kept.
func (c *Capture) Bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.kept)
}
