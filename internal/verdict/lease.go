package verdict

import "time"

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
