//go:build linux

package histories_test

// leasesOfRun is how many leases a run has. Nobody else's rows are in them, so that all that can be said of a lease is
// in the history of its run.
const leasesOfRun = 12

// What a process does to a lease.
const (
	doBegin  = "begin lease"
	doRenew  = "renew lease"
	doExpire = "expire lease"
	// doLeave is the second half of the call that expires a lease: a store may take the sessions out in a transaction of
	// its own.
	doLeave = "leave lease"
	doEnded = "ask lease"
)

// A lease is what a store knows of one; zero if there is none.
type lease struct {
	beat    int64
	expired bool
	ended   attempts // that it is to be told of
}

func (l lease) lives() bool { return l.beat > 0 && !l.expired }

// attempts are a set of attempts.
type attempts uint64

func attemptSet(attempt int) attempts { return 1 << attempt }

// note has the lease of the row told that somebody else ends the attempt.
func (s *sessionState) note() {
	if l := &s.leases[s.row.Lease]; l.beat > 0 {
		l.ended |= attemptSet(s.row.Attempt)
	}
}

// names returns how many sessions are in a lease.
func (s sessionState) names(lease int) int {
	if s.row.Lease == lease {
		return 1
	}
	return 0
}

// ofLease says what the answer to a call about a lease is. Each is begun once, by one call.
func (s sessionState) ofLease(c sessionCall) (want sessionAnswer, next sessionState) {
	l := &s.leases[c.Lease]
	switch c.Do {
	case doBegin:
		l.beat = 1
	case doRenew:
		if want.Expired = !l.lives(); l.lives() {
			l.beat = max(l.beat, c.Beat)
		}
	case doExpire:
		if l.lives() && l.beat != c.Beat {
			want.Left = s.names(c.Lease)
			return want, s
		}
		want.Expired, l.expired = true, l.beat > 0
		s.forgetEmpty(c.Lease)
	case doLeave:
		if l.expired && s.names(c.Lease) > 0 {
			s.row.signs = signs{Attempt: s.row.Attempt, Last: max(s.row.Last, s.row.Activity)}
			s.row.Warned, s.row.Expired = false, c.Lease
		}
		s.forgetEmpty(c.Lease)
	case doEnded:
		l.ended &^= c.Told
		want.Ended = l.ended
	}
	return want, s
}

// forgetEmpty deletes an expired lease that no session is in, and what it was not told of.
func (s *sessionState) forgetEmpty(number int) {
	if l := &s.leases[number]; l.expired && s.names(number) == 0 {
		*l = lease{}
	}
}
