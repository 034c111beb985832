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

// The process of a lease is dead after as many promises without a renewal. A living one renews its lease several times
// in each.
const (
	promisesToDeath = 3
	renewals        = 3
	compares        = 6
	secondLooks     = 2
	reads           = 2
)

// ReadLeasesAfter is the longest time from one read of all leases to the next. Their promises have them read sooner;
// a lease that was begun since the last read is found after it, whatever its promise is.
const ReadLeasesAfter = 5 * time.Second

// So many leases that are found dead together, and so large a part of all, seem to be a whole fleet.
const (
	fleet     = 3
	partOfAll = 3
)

// RenewAfter returns the time from one renewal of a lease to the next.
func RenewAfter(promise time.Duration) time.Duration { return promise / renewals }

// CompareAfter returns the time from one comparison of the rows of a lease with the runs of its process to the next.
func CompareAfter(promise time.Duration) time.Duration { return compares * promise }

// SuspectAfter returns the time without a new beat after which a lease is suspected. It is read as often, and renewed
// more often: those that live are only read, and looks, which write, are for the others.
func SuspectAfter(promise time.Duration) time.Duration { return promise / reads }

// FoundDeadWithin returns the longest time from the last renewal of a lease until it is found dead by looks that all
// succeed at once: until it was seen, until it is suspected, and the looks.
func FoundDeadWithin(promise time.Duration) time.Duration {
	return max(2*SuspectAfter(promise), ReadLeasesAfter) + promisesToDeath*promise
}

// ObserveFor returns how long a suspect is waited for at most: as long as it takes to find it dead, and two promises
// more for looks that start again.
func ObserveFor(promise time.Duration) time.Duration {
	return (promisesToDeath + secondLooks) * promise
}

// A Look is one look at a lease, by the clock of who looks.
type Look struct {
	Began, Ended time.Duration
	// Sure tells that the look wrote to the database and locked the lease. Beat is the one that it found.
	Sure bool
	Beat int64
}

// Counts reports whether the look says anything: it succeeded within a promise.
func (l Look) Counts(promise time.Duration) bool { return l.Sure && l.Ended-l.Began <= promise }

// Looks are the looks at a lease in a row that found the same beat, each in time. The zero value has none.
type Looks struct {
	beat        int64
	count       int
	first, last time.Duration // when the first and the last one ended
}

// Add adds a look, and reports whether the lease has expired: whether looks at every promise, for three promises, all
// succeeded within a promise and found the same beat. After anything else they start again, so that an outage, a lock
// or a stopped observer expires no lease.
func (l *Looks) Add(promise time.Duration, look Look) (expired bool) {
	if !look.Counts(promise) {
		*l = Looks{}
		return false
	}
	if l.count == 0 || look.Beat != l.beat || look.Ended-l.last > 2*promise {
		*l = Looks{beat: look.Beat, count: 1, first: look.Ended, last: look.Ended}
		return false
	}
	l.last = look.Ended
	l.count++
	return look.Began-l.first >= promisesToDeath*promise
}

// Count returns how many looks there are.
func (l Looks) Count() int { return l.count }

// Began returns when the first of the looks ended.
func (l Looks) Began() time.Duration { return l.first }

// Lasted returns how long the looks have found the same beat.
func (l Looks) Lasted() time.Duration { return l.last - l.first }

// FleetDied reports whether a whole fleet seems to have died with a lease: whether of all leases at least three, and at
// least a third, were found dead while it was observed, or no other was renewed meanwhile. It may only be cut off.
func FleetDied(dead, all int, renewed bool) bool {
	return !renewed || dead >= fleet && partOfAll*dead >= all
}

// How long what a store did not take waits for the next try, at first and at most.
const (
	firstRetry   = time.Second
	longestRetry = 30 * time.Second
)

// RetryRecord returns how long what a store has refused waits for the next try, after so many that were made by
// themselves: a second, twice as long each time, and at most half a minute.
func RetryRecord(tries int) time.Duration { return Doubled(firstRetry, longestRetry, tries) }

// A ClockReading is what another clock shows between two instants of the own clock.
type ClockReading struct {
	Began, Ended, Shown time.Duration
}

// Two clocks that nobody sets may drift apart by a thousandth: NTP slews a clock by at most half of that. Below the
// shortest step a clock that was set is not told from one that answered late; it is less than any sensible threshold.
const (
	shortestStep = 5 * time.Second
	drift        = 1000
)

// ClockStep returns by how much the other clock was set between two readings, or 0 if it went on as the own clock did.
// It is negative if the clock was set back.
func ClockStep(before, after ClockReading) time.Duration {
	advance := after.Shown - before.Shown
	least, most := after.Began-before.Ended, after.Ended-before.Began
	tolerance := shortestStep + most/drift
	switch {
	case advance > most+tolerance:
		return advance - most
	case advance < least-tolerance:
		return advance - least
	}
	return 0
}
