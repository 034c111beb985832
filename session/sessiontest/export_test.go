package sessiontest

// Rules returns the rules.
var Rules = rules

// SetRows sets how many rows the rules write that need many, and returns a function that restores it.
func SetRows(many, around int) (restore func()) {
	manyBefore, aroundBefore := crowd, slowest
	crowd, slowest = many, around
	return func() { crowd, slowest = manyBefore, aroundBefore }
}
