package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
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

// String returns a text for people.
func (b Blind) String() string {
	switch b {
	case "":
		return "the probe saw the state"
	case BlindStart:
		return "the probe could not be started"
	case BlindTimeout:
		return "the probe did not end within its timeout"
	case BlindExit:
		return "the probe failed"
	case BlindOutput:
		return "the probe's output is no observation"
	}
	return "the probe could not observe"
}

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
// probe that did not exit, because a signal or its timeout ended it, is blind even then. The error is nil if and only
// if the Blind is empty. It wraps the errors of [Parse]. It holds nothing that the probe printed and no part of its
// command, even if StartErr does.
func Read(o Outcome, anyExit bool) (Observation, Blind, error) {
	switch {
	case o.StartErr != nil:
		return blinded(BlindStart, startReason(o.StartErr))
	case o.TimedOut:
		return blinded(BlindTimeout, nil)
	case o.ExitStatus < 0:
		return blinded(BlindExit, errors.New("a signal ended it"))
	case o.ExitStatus > 0 && !anyExit:
		return blinded(BlindExit, fmt.Errorf("exit status %d", o.ExitStatus))
	}
	seen, err := Parse(o.Output)
	if err != nil {
		return blinded(BlindOutput, err)
	}
	return seen, "", nil
}

func blinded(b Blind, why error) (Observation, Blind, error) {
	if why == nil {
		return Observation{}, b, errors.New(b.String())
	}
	return Observation{}, b, fmt.Errorf("%v: %w", b, why)
}

// startReason says why a command did not start, without naming the command. It returns nil if it does not know.
func startReason(err error) error {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return errors.New("there is no such program or folder")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("its program may not be run")
	}
	return nil
}
