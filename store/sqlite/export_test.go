package sqlite

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
