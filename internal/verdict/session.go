package verdict

import "time"

// SessionLimits say when a session that is known only from its row is stalled.
type SessionLimits struct {
	// Threshold is how long it may be silent; [Never] switches the check off.
	Threshold time.Duration
	// MinAge is the age from which on it can be stalled.
	MinAge time.Duration
}

// Stalled reports whether a session of that age was silent for longer than its threshold. At the minimum age it is old
// enough; at the threshold it is not stalled yet.
func Stalled(limits SessionLimits, age, silence time.Duration) bool {
	return age >= limits.MinAge && silence > limits.Threshold // nothing is longer than Never
}

// A row is written if it is behind by a tenth of the threshold, or behind at all after half of it. The second rule
// writes a run's last sign of life in time; with a tenth there too, it would double the writes.
const (
	writeBehind    = 10
	writeQuiet     = 2
	writesTogether = 20
)

// Silence returns how long a run has given no sign of life at the instant now. If there was none, it counts from the
// attach. It is 0 while a hold is open.
func Silence(seen Snapshot, now time.Duration) time.Duration {
	if seen.Signs.Holds.Len() > 0 {
		return 0
	}
	return max(now-max(seen.begun(), seen.Signs.Activity, seen.Signs.HoldsChanged), 0)
}

// Signalled reports whether a run has signalled or had a hold since the attach.
func Signalled(seen Snapshot) bool {
	return seen.Signs.Signalled || seen.Signs.Holds.Len() > 0 || seen.Signs.HoldsChanged > seen.Attached
}

// Quiet reports whether a run has had nothing new for so long that its row says so, for others to look at it: a minute,
// or a quarter of the threshold.
func Quiet(threshold, silence time.Duration) bool { return silence >= min(longestBusy, threshold/4) }

// ShouldWriteRow reports whether to write a run's last sign of life, at the instant last, to its row, which shows an
// earlier one, at the instant shown. It is time if the row is behind by a tenth of the threshold, as when a run wakes
// up, or behind at all and half of the threshold has passed. So a row is written about ten times per threshold, and the
// row of a live run is never older than the threshold.
func ShouldWriteRow(threshold, shown, last, now time.Duration) bool {
	behind := last - shown
	return behind > 0 && (behind >= threshold/writeBehind || now-shown >= threshold/writeQuiet)
}

// TakeAlong reports whether to write a row with others although it is not behind by a tenth of the threshold yet: but a
// twentieth of that is missing. So the rows of a process come to be written together, whenever its runs began. A
// transaction of a few rows costs a database as much as their changes.
func TakeAlong(threshold, shown, last time.Duration) bool {
	due := threshold / writeBehind
	return last-shown >= due-due/writesTogether
}

// TakeAlone reports whether to wait for the lock on a row that others had locked at each write for so long. It is time
// after ten seconds, and after a quarter of the threshold.
func TakeAlone(threshold, locked time.Duration) bool {
	return locked >= min(longestLocked, threshold/4)
}

// RetryRefused returns how long to leave a row alone that the database has refused to write so many times: the pace at
// first, and twice as long each time, up to a minute and a quarter of the threshold.
func RetryRefused(threshold, pace time.Duration, refusals int) time.Duration {
	return Doubled(pace, max(pace, min(longestRefused, threshold/4)), refusals-1)
}

const (
	longestBusy    = time.Minute
	longestLocked  = 10 * time.Second
	longestRefused = time.Minute
)

// Doubled doubles d a number of times, up to most.
func Doubled(d, most time.Duration, times int) time.Duration {
	for range times {
		if d > most/2 {
			return most
		}
		d *= 2
	}
	return min(d, most)
}
