package storerows

import "time"

// StartPause returns how long a claim or a pause of a start lasts: as it was asked for, but not less than no time, and
// not more than a day. One that would end later began before the clock was set back: see [SetBack].
func StartPause(asked time.Duration) time.Duration { return min(max(asked, 0), SetBack) }
