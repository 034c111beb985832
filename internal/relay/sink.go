package relay

import (
	"io"
	"os"
	"time"
)

// A sink is the destination of a stream. It belongs to the stream's goroutine, but for interrupt.
type sink struct {
	w        io.Writer
	endable  bool     // a Write that waits ends after interrupt
	splices  bool     // the file takes bytes that nobody read
	discards bool     // the file is /dev/null
	file     *os.File // the duplicate of the host's, or nil
	wake     *os.File // written to in order to end a wait for the file, or nil
}

func openSink(to io.Writer) (*sink, error) {
	switch to := to.(type) {
	case nil:
		return openDiscard(), nil
	case *os.File:
		return openFile(to)
	}
	return &sink{w: to}, nil
}

// interrupt ends a wait for the destination where that is possible.
func (o *sink) interrupt() {
	if o.wake != nil {
		_, _ = o.wake.Write([]byte{1, 0, 0, 0, 0, 0, 0, 1}) // an eventfd takes 8 bytes; after its close nobody waits
	}
	if o.file != nil {
		_ = o.file.SetWriteDeadline(time.Unix(1, 0)) // files that block have none
	}
}

func (o *sink) close() error {
	if o.wake != nil {
		_ = o.wake.Close() // it holds nothing
	}
	if o.file != nil {
		return o.file.Close()
	}
	return nil
}
