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

	MaxUnreadable = maxUnreadable
)

// The statements whose plans are held.
var SelectStalled = selectStalled

const (
	SelectEnded = selectEnded
	FreshenRows = freshenRows
	SelectGone  = selectGone
	CancelRow   = cancelRow
	EndRow      = endRow
)
