package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A BusyError says that another process runs the session. [Dir.Lock] returns it.
type BusyError struct {
	ID  string
	PID int
}

// Error says which process has the session and what to do.
func (e *BusyError) Error() string {
	return fmt.Sprintf("session %s is being run by process %d; wait for it to end, or interrupt it", e.ID, e.PID)
}

// Lock makes this process the only one that runs the session, until it calls release or ends. Two processes on one
// session would still record one stop, but both would run its phases and overwrite the session's file. Lock does not
// wait: it returns a [*BusyError], or wraps [ErrNoSession]. Without such locks (see lock_other.go) it always succeeds.
func (d Dir) Lock(id string) (release func(), err error) {
	file, err := os.OpenFile(filepath.Join(d.session(id), "lock"), os.O_RDWR|os.O_CREATE, secret)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, d.noSession(id)
	}
	if err != nil {
		return nil, fmt.Errorf("lock session %s: %w", id, err)
	}
	release = func() { _ = file.Close() } // nothing was written
	pid, err := lock(file)
	switch {
	case err != nil:
		release()
		return nil, fmt.Errorf("lock session %s: %w", id, err)
	case pid != 0:
		release()
		return nil, &BusyError{id, pid}
	}
	return release, nil
}
