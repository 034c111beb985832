package sqlite

// The parts with tests of their own.
var (
	ParseTime    = parseTime
	FormatTime   = formatTime
	AddVersion   = addVersion
	StripVersion = stripVersion
)

const (
	LockWait = lockWait
	MaxRows  = maxRows
)

// The statements with golden plans.
var SelectStalled = selectStalled

const (
	SelectEnded = selectEnded
	FreshenRows = freshenRows
	SelectGone  = selectGone
	CancelRow   = cancelRow
	EndRow      = endRow

	SelectSelection = selectSelection
	SelectMany      = selectMany
	SelectStored    = selectStored
	SelectLayers    = selectLayers
	SelectNew       = selectNew
)
