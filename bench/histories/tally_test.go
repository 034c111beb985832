//go:build linux

package histories_test

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// A tally counts the calls of all processes, in a file that they have in memory: what they call about depends on how
// many calls there were, and not on how fast the machine is.
type tally struct {
	*atomic.Int64
	memory []byte
}

const sizeOfTally = 8

// openTally opens a tally, and makes one of 0 if there is none.
func openTally(path string) (*tally, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := file.Truncate(sizeOfTally); err != nil {
		return nil, err
	}
	memory, err := syscall.Mmap(int(file.Fd()), 0, sizeOfTally, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(errors.New("map the tally"), err)
	}
	return &tally{(*atomic.Int64)(unsafe.Pointer(&memory[0])), memory}, nil
}

func (t *tally) close() error { return syscall.Munmap(t.memory) }
