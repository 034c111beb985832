//go:build !linux

package relay

import (
	"errors"
	"io"
	"os"
)

func openDiscard() *destination { return &destination{w: io.Discard} }

func openFile(f *os.File) (*destination, error) {
	file, err := duplicate(f)
	if err != nil {
		return nil, err
	}
	return &destination{w: file, file: file}, nil
}

// splice exists only on Linux.
func (s *Stream) splice() error { return errors.ErrUnsupported }
