package sqlite

import "time"

// What the tests of the parts need, for a test package outside.
var (
	ParseTime  = parseTime
	FormatTime = formatTime
	Mark       = mark
	Unmark     = unmark
)

const (
	LockWait = lockWait
	MaxRows  = maxRows
)

// SetLockWait shortens the time that a store waits for locks.
func (s *Store) SetLockWait(d time.Duration) { s.lockWait = d }
