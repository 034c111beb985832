package relay

import (
	"errors"
	"io"
	"os"
	"time"
)

// errStopped ends relaying after [Stream.Finish] gave up.
var errStopped = errors.New("stopped")

// A destination is where a stream goes. Only interrupt may be called outside the stream's goroutine.
type destination struct {
	w             io.Writer
	interruptible bool     // interrupt ends a Write that waits
	canSplice     bool     // splice(2) can write to the file
	isNull        bool     // the file is /dev/null
	file          *os.File // the duplicate of the host's, or nil
	wake          *os.File // a write to it ends a wait for the file, or nil
}

func openDestination(to io.Writer) (*destination, error) {
	switch to := to.(type) {
	case nil:
		return openDiscard(), nil
	case *os.File:
		return openFile(to)
	}
	return &destination{w: to}, nil
}

// interrupt ends a wait for the destination if possible.
func (d *destination) interrupt() {
	if d.wake != nil {
		_, _ = d.wake.Write([]byte{1, 0, 0, 0, 0, 0, 0, 1}) // an eventfd takes 8 bytes; fails only if closed
	}
	if d.file != nil {
		_ = d.file.SetWriteDeadline(time.Unix(1, 0)) // a blocking file does not support it
	}
}

func (d *destination) close() error {
	if d.wake != nil {
		_ = d.wake.Close() // it has nothing to flush
	}
	if d.file != nil {
		return d.file.Close()
	}
	return nil
}
