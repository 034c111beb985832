//go:build !linux

package relay

import (
	"errors"
	"io"
	"os"
)

func openDiscard() *sink { return &sink{w: io.Discard} }

func openFile(f *os.File) (*sink, error) {
	file, err := duplicate(f)
	if err != nil {
		return nil, err
	}
	return &sink{w: file, file: file}, nil
}

// splice is for Linux.
func (s *Stream) splice() error { return errors.ErrUnsupported }
