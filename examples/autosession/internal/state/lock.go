package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A BusyError is returned by [Dir.Lock] for a session that another process runs.
type BusyError struct {
	ID  string
	PID int
}

// Error says which process has the session and what to do.
func (e *BusyError) Error() string {
	return fmt.Sprintf("session %s is being run by process %d; wait for it to end, or interrupt it", e.ID, e.PID)
}

// Lock makes this process the one that runs a session, until it releases the session or ends in any way. Two processes on one session would
// still record one stop between them, but do its phases twice and write over each other's files. It does not wait: it returns a
// [*BusyError], or wraps [ErrNoSession]. Where the system has no such locks (see lock_other.go) it only ever succeeds.
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
