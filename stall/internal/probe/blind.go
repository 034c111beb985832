package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
)

// A Blind is a way in which a probe could not observe. The empty one is a probe that saw.
type Blind string

// The ways.
const (
	BlindStart   Blind = "start"
	BlindTimeout Blind = "timeout"
	BlindExit    Blind = "exit"
	BlindOutput  Blind = "output"
)

// String says it for people.
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

// An Outcome is how one run of a probe ended.
type Outcome struct {
	// StartErr is why it did not start; nil if it did.
	StartErr error
	// TimedOut tells that it was ended at its timeout.
	TimedOut bool
	// ExitStatus is less than 0 for a probe that a signal ended.
	ExitStatus int
	// Output is what it printed, of a longer output at least the first MaxOutput+1 bytes.
	Output []byte
}

// Read says what a probe saw, or in which way it was blind and why. With anyExit the output counts whatever the exit status; a probe that did not
// exit, because a signal or its timeout ended it, is blind all the same. The error is nil exactly if the Blind is empty. It wraps
// what [Parse] returned, and holds nothing that the probe printed nor any part of its command, also where StartErr does.
func Read(o Outcome, anyExit bool) (Observation, Blind, error) {
	switch {
	case o.StartErr != nil:
		return blinded(BlindStart, startFault(o.StartErr))
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

// startFault says why a command did not start without naming it, or nil.
func startFault(err error) error {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return errors.New("there is no such program or folder")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("its program may not be run")
	}
	return nil
}
