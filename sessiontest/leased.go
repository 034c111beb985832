package sessiontest

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// lag is how far the clock of a lease is beyond what it vouches for.
const lag = time.Minute

// begin begins a lease whose process has written nothing yet.
func begin(e *env, id string) session.Lease {
	l := session.Lease{ID: id, Host: host, Promise: 10 * time.Second, Beat: 1}
	must(e.Store.BeginLease(e.Ctx, l), "begin the lease %s", id)
	return l
}

// renew renews a lease.
func renew(e *env, l session.Lease) { must(e.Store.RenewLease(e.Ctx, l), "renew the lease %s", l.ID) }

// vouch renews a lease, which vouches for all before an instant of its clock. What was not written yet holds the
// instant back: the clock has gone on since, by lag.
func vouch(e *env, l session.Lease, at time.Duration) session.Lease {
	l.Beat, l.Clock, l.Vouched = l.Beat+1, at+lag, at
	renew(e, l)
	return l
}

// beginAt begins a lease that vouches for all before an instant of its clock.
func beginAt(e *env, id string, at time.Duration) session.Lease { return vouch(e, begin(e, id), at) }

func underLease(s session.Session, lease string) session.Session {
	s.Lease = lease
	return s
}

// attachUnder attaches to a run under a lease.
func attachUnder(e *env, lease, runID string) session.Session {
	return attach(e, underLease(newSession(runID), lease))
}

// attachLeased begins a lease and attaches to a run under it.
func attachLeased(e *env, lease, runID string) session.Session { return attachEach(e, lease, runID)[0] }

// attachEach begins a lease and attaches to each run under it.
func attachEach(e *env, lease string, runIDs ...string) (all []session.Session) {
	begin(e, lease)
	for _, runID := range runIDs {
		all = append(all, attachUnder(e, lease, runID))
	}
	return all
}

// observe returns a lease as it is observed, with a zero ID if there is none.
func observe(e *env, id string, suspects ...string) session.Lease {
	all, err := e.Store.ObserveLeases(e.Ctx, suspects)
	must(err, "observe leases")
	i := slices.IndexFunc(all, func(l session.Lease) bool { return l.ID == id })
	if i < 0 {
		return session.Lease{}
	}
	return all[i]
}

// expires checks what ExpireLease returns.
func expires(e *env, l session.Lease, want bool, wantLeft int) {
	expired, left, err := e.Store.ExpireLease(e.Ctx, l)
	must(err, "expire the lease %s", l.ID)
	require(expired == want && left == wantLeft,
		"expire the lease %s: it returned %v and %d sessions left, want %v and %d", l.ID, expired, left, want, wantLeft)
}

// vouchedFor writes a session that was silent for an hour, puts it into a lease, and vouches for all before ten hours
// of the lease's clock.
func vouchedFor(e *env, f session.Freshness) (session.Lease, session.Session) {
	return vouchedAfter(e, time.Hour, f)
}

// vouchedAfter is vouchedFor with another silence before the lease.
func vouchedAfter(e *env, silence time.Duration, f session.Freshness) (session.Lease, session.Session) {
	l := beginAt(e, homeLease, 10*time.Hour)
	s := putSilent(e, homeRun, silence)
	f.RunID, f.Attempt = s.RunID, s.Attempt
	freshens(e, l.ID, f)
	return l, look(e, s.RunID)
}
