package session

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Lease is the word of one process that it lives. A [Keeper] begins one, renews it several times in every promise,
// and names it in the rows of its runs. While a lease lives, a run is only silent as far as its keeper vouches for it.
//
// Whether a lease still lives is observed and never computed from stored times: a sweeper looks at it for three
// promises. Times of the keeper are by its own monotonic clock, which is at zero when the lease begins, so that no
// other clock has a say.
type Lease struct {
	// ID is random: no other lease has it.
	ID string
	// Host is where the process runs.
	Host string
	// Promise is the time in which the process writes at least once, unless it is dead or cut off. One that is shorter
	// than [ShortestPromise] counts as that.
	Promise time.Duration
	// Beat is counted up by every renewal, from 1.
	Beat int64
	// Clock is the keeper's clock at the renewal. All activity of its runs up to Vouched is in their rows.
	Clock, Vouched time.Duration
	// Covered is what Vouched would be without the rows that cannot be written now, which Behind names: all activity of
	// the other runs up to it is in their rows. A lease vouches for each of those up to the later of Vouched and Covered,
	// and for one that it names only up to its own instant.
	Covered time.Duration
	Behind  []RowBehind
	// RenewedAt is the time of the renewal by the database's clock. A store sets it.
	RenewedAt time.Time
	// Expired tells that a sweeper found the process dead. An expired lease never lives again. A store sets it.
	Expired bool
	// Lost is for ExpireLease: the process was observed to be dead while others lived, so that the sessions that it takes
	// out of the lease become Lost as well. No lease that a store returns has it.
	Lost bool
	// Looks is for ExpireLease: how many looks in a row found that the lease is not renewed. No lease that a store returns
	// has it.
	Looks int
	// Locked tells that the lease was not observed, because another transaction has locked it: see
	// [Leases].ObserveLeases, which sets it.
	Locked bool
}

// Validate returns an error if the promise is negative, or longer than [LongestPromise]. The BeginLease of every store
// calls it. A sweeper that runs observes a lease with a longer one, of another program, as any other.
func (l Lease) Validate() error {
	if l.Promise < 0 || l.Promise > LongestPromise {
		return fmt.Errorf("begin lease %s: the promise is %v; use at most %v", l.ID, l.Promise, LongestPromise)
	}
	return nil
}

// The shortest and the longest [KeeperConfig].Promise. It takes up to four promises to find a dead process.
const (
	ShortestPromise = time.Second
	LongestPromise  = 5 * time.Minute
)

// NoActivity is the [Session].Activity of a run that has not signalled since its attach.
const NoActivity = time.Duration(-1)

// ErrLeaseExpired says that a lease does not live: it has expired, or there is none with its ID. BeginLease,
// RenewLease, Attach and Freshen wrap it. The process has to begin another.
var ErrLeaseExpired = errors.New("the lease of this process has expired")

// Leases is the part of a [Store] that keeps leases.
type Leases interface {
	// BeginLease makes a lease. It wraps [ErrLeaseExpired] if there is one with that ID that has expired. A lease that is
	// invalid ([Lease.Validate]) is an error, and not made.
	BeginLease(ctx context.Context, l Lease) error
	// RenewLease writes the beat, the clock and the instants vouched for, none of which ever decreases, and the rows that
	// are behind, all of them only with a higher beat. Without a Covered the rows that are behind stay: they go with the
	// one that is written. It wraps [ErrLeaseExpired], and then changes nothing.
	RenewLease(ctx context.Context, l Lease) error
	// ObserveLeases returns all leases, ordered by ID. Those among the suspects that live are locked and written to, so
	// that a database that cannot be written to observes nothing; those that another transaction has locked are returned
	// as Locked. Without suspects nothing is written.
	ObserveLeases(ctx context.Context, suspects []string) ([]Lease, error)
	// ExpireLease expires a lease if its beat is still the same; one that has expired already stays so. It then takes at
	// most [ExpireBatch] of its active sessions out of it: their Threshold and LastEventAt count again, by the database's
	// clock, and with [Lease].Lost they are [Session].Lost. Each gets the ID, the Looks and the RenewedAt of the argument
	// as [Session].Expired. Rows that others have locked are left. A lease without a session is deleted. ExpireLease
	// reports whether the lease has expired, and how many active sessions still name it. If the lease is locked it wraps
	// [ErrLocked]. That there is no such lease is no error: it has expired.
	ExpireLease(ctx context.Context, l Lease) (expired bool, left int, err error)
	// LeaseSessions returns the attempts of the active sessions that name a lease, in no order.
	LeaseSessions(ctx context.Context, id string) ([]AttemptID, error)
	// Ended returns the attempts of a lease that somebody else has ended, or followed by another attempt, and forgets
	// those that the lease was told of before. Cancel, Claim where it finds an end that is stored, and Attach note such an
	// attempt in the transaction that ends it; End, which a lease calls for its own, notes none. What is not told goes
	// with the lease. It is a cheap poll, which only reads if it has nothing to forget, for stores without a Listener and
	// for what a Listener missed.
	Ended(ctx context.Context, lease string, told []AttemptID) (ended []AttemptID, err error)
}

// ExpireBatch is how many sessions one call of ExpireLease takes out of a lease.
const ExpireBatch = 1000

// sameSigns reports whether a session has given no sign of life since it was judged, and nobody else has taken it.
func (s Session) sameSigns(judged Session) bool {
	return s.Attempt == judged.Attempt && s.Lease == judged.Lease && s.Activity == judged.Activity &&
		s.LastEventAt.Equal(judged.LastEventAt)
}

// stalledAs reports whether a session has the signs of life that it was judged by, and whether the limits of its run,
// which may have been raised since, do not allow its silence.
func (s Session) stalledAs(judged Session) bool {
	return s.sameSigns(judged) && (judged.Silence <= 0 || judged.Silence > s.Allowance)
}

// SilentFor returns how long the session has had no event when the database's clock shows now. For a session with a
// lease it is what the lease vouches for, whatever the clock shows.
func (s Session) SilentFor(now time.Time) time.Duration {
	if s.Lease != "" {
		return s.Silence
	}
	return now.Sub(s.SilentSince())
}
