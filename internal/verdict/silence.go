package verdict

import "time"

// A row is written down when it is behind what is known of its run by a part of the threshold, or at all once a larger part has passed. The second is
// what has a run's last sign of life in its row in time; were it as small as the first, it would double the writes.
const (
	freshness = 10
	settled   = 2
)

// Silence is how long a run has given no sign of life at the instant now, from its attach where there was none since. While a hold is open it is
// 0.
func Silence(seen Snapshot, now time.Duration) time.Duration {
	if len(seen.Signs.Holds) > 0 {
		return 0
	}
	return max(now-max(seen.Attached, seen.Signs.Activity, seen.Signs.Released), 0)
}

// Freshen reports whether it is time to write down that a run had its last sign of life at the instant last, where its row says shown: when the row is behind
// by a tenth of the threshold, as that of a run is which wakes up, or at all after half of it. So a row is written about ten times in its threshold, and that of a live
// run is never as old as that.
func Freshen(threshold, shown, last, now time.Duration) bool {
	behind := last - shown
	return behind > 0 && (behind >= threshold/freshness || now-shown >= threshold/settled)
}
