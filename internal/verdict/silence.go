package verdict

import "time"

// freshness is which part of its threshold a row may be behind what is known of its run.
const freshness = 10

// Silence is how long a run has given no sign of life at the instant now, from its attach where there was none since. While a hold is open it is
// 0.
func Silence(seen Snapshot, now time.Duration) time.Duration {
	if len(seen.Signs.Holds) > 0 {
		return 0
	}
	return max(now-max(seen.Attached, seen.Signs.Activity, seen.Signs.Released), 0)
}

// Freshen reports whether it is time to write down that a run had its last sign of life at the instant last, where its row says shown: at the first look after a
// tenth of the threshold, so that a row of a live run is never as old as its threshold, and one that woke up after a silence is fresh at once.
func Freshen(threshold, shown, last, now time.Duration) bool {
	return last > shown && now-shown >= threshold/freshness
}
