// Package invalid has the one error for what a caller passed wrong. The packages of this module have it under a name of
// their own, so that [errors.Is] finds it whichever of them a program imports.
package invalid

import "errors"

// Err says that what the caller passed is wrong.
var Err = errors.New("invalid")
